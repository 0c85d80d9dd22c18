#pragma once

#include "support/sanitizers.hpp"
#include "support/subject_of.hpp"

// What the suites conformance, stress, layout and soak run on besides every entry of the catalogue: the defaults,
// since nothing else of an entry bears on values and order, with values too large for a word, with signed keys
// under std::greater, and under an order that takes different keys for equivalent. The orders, which bear on no
// memory and on no ordering of accesses, are left out under sanitizers. One program for all of them; a suite says
// which subjects it takes.

namespace espalier::test {

template <class Entries>
bool add_default_subjects() {
  Entries::for_each([]<class Entry>() {
    if constexpr (Entry::variant.empty()) {
      add_subject_of<Entry, wide_codec>();
      if constexpr (!address_sanitizer && !thread_sanitizer) {
        add_subject_of<Entry, descending_codec>();
        add_subject_of<Entry, folded_codec>();
      }
    }
  });
  return true;
}

}  // namespace espalier::test

#define ESPALIER_CATALOG_UNIT(algorithm)                 \
  [[maybe_unused]] static const bool algorithm##_added = \
      ::espalier::test::add_default_subjects<::espalier::catalog::algorithm>();
