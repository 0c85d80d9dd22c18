#pragma once

#include "support/subject_of.hpp"

// What lies where, for every entry of the catalogue with its own keys and values.

namespace espalier::test {

template <class Entries>
bool add_layout_subjects() {
  Entries::for_each([]<class Entry>() { add_subject_of<Entry, plain_codec>(); });
  return true;
}

}  // namespace espalier::test

#define ESPALIER_CATALOG_UNIT(algorithm)                 \
  [[maybe_unused]] static const bool algorithm##_added = \
      ::espalier::test::add_layout_subjects<::espalier::catalog::algorithm>();
