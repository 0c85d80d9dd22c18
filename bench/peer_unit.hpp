#pragma once

#include "espalier/workload/driver.hpp"

/// Registers a map of another library with the command.
#define ESPALIER_CATALOG_UNIT(algorithm)                                               \
  namespace {                                                                          \
  [[maybe_unused]] const bool registered =                                             \
      espalier::workload::register_subjects<espalier::catalog::algorithm,              \
                                            espalier::workload::subject_kind::peer>(); \
  }
