#pragma once

#include "support/sanitizers.hpp"
#include "support/subject_of.hpp"

// The additional subjects of the suites conformance, stress, layout and soak, besides every entry of the catalogue.
// They are the defaults, since nothing else of an entry affects values and order: with values larger than a word, with
// signed keys under std::greater, and under an order that treats different keys as equivalent. The orders affect
// neither memory nor the ordering of accesses, and are left out under sanitizers. One program serves all suites; a
// suite states which subjects it takes.

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
