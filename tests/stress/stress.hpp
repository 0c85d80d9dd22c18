#pragma once

#include "support/subject_of.hpp"

// Threads against one map, for every entry of the catalogue; and with values too large for a word, whose
// memory comes and goes by itself, for the entries' defaults.

namespace espalier::test {

template <class Entries>
bool add_stress_subjects() {
  Entries::for_each([]<class Entry>() {
    add_subject_of<Entry, plain_codec>();
    if constexpr (Entry::variant.empty()) add_subject_of<Entry, wide_codec>();
  });
  return true;
}

}  // namespace espalier::test

#define ESPALIER_CATALOG_UNIT(algorithm)                 \
  [[maybe_unused]] static const bool algorithm##_added = \
      ::espalier::test::add_stress_subjects<::espalier::catalog::algorithm>();
