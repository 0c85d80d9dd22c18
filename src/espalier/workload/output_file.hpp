#pragma once

#include "espalier/hw/output_file.hpp"

namespace espalier::workload {

using hw::output_file;

}  // namespace espalier::workload
