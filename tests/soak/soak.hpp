#pragma once

#include "support/subject_of.hpp"

// Long runs on few keys, for the default of every algorithm whose memory goes through a reclaimer.

namespace espalier::test {

template <class Entries>
bool add_soak_subjects() {
  Entries::for_each([]<class Entry>() {
    if constexpr (Entry::variant.empty() && Entry::map_type::properties.region_protection)
      add_subject_of<Entry, plain_codec>();
  });
  return true;
}

}  // namespace espalier::test

#define ESPALIER_CATALOG_UNIT(algorithm)                 \
  [[maybe_unused]] static const bool algorithm##_added = \
      ::espalier::test::add_soak_subjects<::espalier::catalog::algorithm>();
