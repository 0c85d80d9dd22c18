#pragma once

// The machines of the published measurements with which this library is compared.

#include <span>
#include <string_view>

#include "sim/machine/machine_spec.hpp"

namespace espalier::sim {

/// abu_dhabi, haswell, e7_4850, e5_2650_htm, i7_4770, emerald_rapids: in this order, for the life of the program.
std::span<const machine_spec> presets();

/// Throws std::invalid_argument that names the presets if none has this name.
const machine_spec& preset(std::string_view name);

}  // namespace espalier::sim
