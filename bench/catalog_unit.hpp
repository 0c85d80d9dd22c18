#pragma once

#include "espalier/workload/driver.hpp"

/// Registers an algorithm of the catalogue with the command.
#define ESPALIER_CATALOG_UNIT(algorithm)                                                   \
  namespace {                                                                              \
  [[maybe_unused]] const bool registered =                                                 \
      espalier::workload::register_subjects<espalier::catalog::algorithm,                  \
                                            espalier::workload::subject_kind::espalier>(); \
  }
