#pragma once

#include <string_view>

#include "espalier/memory/any_placement.hpp"
#include "support/subject_of.hpp"

// What the suite forks runs on besides the entries of the catalogue: each lock-free algorithm over every placement
// that is chosen by name.

namespace espalier::test {

/// A placement of the kind that the running check names.
class named_placement : public any_placement {
 public:
  static constexpr std::string_view name = "named";
  static inline std::string_view chosen = "segregated";
  static inline any_placement::recording keeps = any_placement::recording::off;

  named_placement() : any_placement(chosen, keeps) {}
};

template <class Entries>
bool add_named_subjects() {
  Entries::for_each([]<class Entry>() {
    if constexpr (Entry::variant.empty() &&
                  Entry::map_type::properties.update_progress != progress::blocking) {
      using map = catalog::placed<rebind_to_codec<typename Entry::map_type, plain_codec>, named_placement>;
      add_subject(describe<Entry, plain_codec, map>(Entry::name().append("@named")));
    }
  });
  return true;
}

}  // namespace espalier::test

#define ESPALIER_CATALOG_UNIT(algorithm)                 \
  [[maybe_unused]] static const bool algorithm##_added = \
      ::espalier::test::add_named_subjects<::espalier::catalog::algorithm>();
