#pragma once

#include <string>

#include "espalier/catalog/any_map_unit.hpp"

// Trees with nodes as published as indexes of the database: entries of the catalogue that any_map does not have by itself.

namespace espalier::app::db {

template <class EntryList, template <class> class Held = detail::any_map_of>
bool add_published() {
  EntryList::for_each([]<class Entry>() {
    if constexpr (Entry::variant == "published" || Entry::variant == "wide_descriptors") {
      static const std::string name = Entry::name();
      any_map::add({name, &detail::make_placed_any_map<typename Entry::map_type, Held>, true});
    }
  });
  return true;
}

}  // namespace espalier::app::db

#undef ESPALIER_CATALOG_UNIT
#define ESPALIER_CATALOG_UNIT(algorithm)                                                                \
  namespace {                                                                                           \
  [[maybe_unused]] const bool added = espalier::app::db::add_published<espalier::catalog::algorithm>(); \
  }
