#pragma once

// The machines of the published measurements that this library is compared with.

#include <span>
#include <string_view>

#include "sim/machine/machine_spec.hpp"

namespace espalier::sim {

/// abu_dhabi, haswell, e7_4850, e5_2650_htm, i7_4770, emerald_rapids: in this order, for the life of the program.
std::span<const machine_spec> presets();

/// Throws std::invalid_argument naming the presets where there is none of this name.
const machine_spec& preset(std::string_view name);

}  // namespace espalier::sim
