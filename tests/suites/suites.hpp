#pragma once

#include "support/subject_of.hpp"

// The subjects of the suites conformance, stress, layout and soak: every entry of the catalogue, but for those that
// leak from the heap, with the catalogue's own keys and values; the defaults, since nothing else of an entry bears on values and order, also
// with values too large for a word, with signed keys under std::greater, and under an order that takes
// different keys for equivalent. One program, so that a map is compiled once for all of them; a suite says
// which subjects it takes.

namespace espalier::test {

template <class Entries>
bool add_subjects() {
  Entries::for_each([]<class Entry>() {
    if constexpr (!loses_heap_memory<typename Entry::map_type>) add_subject_of<Entry, plain_codec>();
    if constexpr (Entry::variant.empty()) {
      add_subject_of<Entry, wide_codec>();
      add_subject_of<Entry, descending_codec>();
      add_subject_of<Entry, folded_codec>();
    }
  });
  return true;
}

}  // namespace espalier::test

#define ESPALIER_CATALOG_UNIT(algorithm)                 \
  [[maybe_unused]] static const bool algorithm##_added = \
      ::espalier::test::add_subjects<::espalier::catalog::algorithm>();
