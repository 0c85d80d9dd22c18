#pragma once

#include <cstdint>

namespace espalier::sim {

/// So many schedules, times ESPALIER_SCHEDULES of the environment; at least one. Throws
/// std::invalid_argument where that is no positive number.
[[nodiscard]] std::uint64_t scaled_schedules(double usual);

}  // namespace espalier::sim
