#pragma once

#include "support/subject_of.hpp"

// The contract of map_concept.hpp, for every entry of the catalogue: with the catalogue's own keys and values,
// and with values too large for a word. The defaults, since nothing else of an entry bears on order, also with
// signed keys under std::greater and under an order that takes different keys for equivalent.

namespace espalier::test {

template <class Entries>
bool add_conformance_subjects() {
  Entries::for_each([]<class Entry>() {
    add_subject_of<Entry, plain_codec>();
    add_subject_of<Entry, wide_codec>();
    if constexpr (Entry::variant.empty()) {
      add_subject_of<Entry, descending_codec>();
      add_subject_of<Entry, folded_codec>();
    }
  });
  return true;
}

}  // namespace espalier::test

#define ESPALIER_CATALOG_UNIT(algorithm)                 \
  [[maybe_unused]] static const bool algorithm##_added = \
      ::espalier::test::add_conformance_subjects<::espalier::catalog::algorithm>();
