#pragma once

#include "support/subject_of.hpp"

// Every entry of the catalogue as a subject, with the catalogue's own keys and values, except those that leak from the
// heap. Compiled once for all programs that run the suites.

namespace espalier::test {

template <class Entries>
bool add_catalog_subjects() {
  Entries::for_each([]<class Entry>() {
    if constexpr (!loses_heap_memory<typename Entry::map_type>) add_subject_of<Entry, plain_codec>();
  });
  return true;
}

}  // namespace espalier::test

#define ESPALIER_CATALOG_UNIT(algorithm)                 \
  [[maybe_unused]] static const bool algorithm##_added = \
      ::espalier::test::add_catalog_subjects<::espalier::catalog::algorithm>();
