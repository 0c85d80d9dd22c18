#pragma once

#include "espalier/memory/segregated.hpp"
#include "espalier/memory/shared_heap.hpp"
#include "support/failing_placement.hpp"
#include "support/subject_of.hpp"

// What the suite fault runs on besides every entry of the catalogue: each algorithm's default with all its memory
// from operator new, and with a placement that fails, either with values too large for a word as well.

namespace espalier::test {

template <class Entry, class Placement, class Codec>
void add_subject_placed() {
  using map = catalog::placed<rebind_to_codec<typename Entry::map_type, Codec>, Placement>;
  add_subject(
      describe<Entry, Codec, map>(Entry::name().append("@").append(Placement::name).append(Codec::suffix)));
}

template <class Entries>
bool add_fault_subjects() {
  Entries::for_each([]<class Entry>() {
    if constexpr (Entry::variant.empty()) {
      add_subject_placed<Entry, shared_heap, plain_codec>();
      add_subject_placed<Entry, shared_heap, wide_codec>();
      add_subject_placed<Entry, failing_placement<segregated>, plain_codec>();
      add_subject_placed<Entry, failing_placement<segregated>, wide_codec>();
    }
  });
  return true;
}

}  // namespace espalier::test

#define ESPALIER_CATALOG_UNIT(algorithm)                 \
  [[maybe_unused]] static const bool algorithm##_added = \
      ::espalier::test::add_fault_subjects<::espalier::catalog::algorithm>();
