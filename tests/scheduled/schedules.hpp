#pragma once

#include <cstdint>

namespace espalier::sim {

/// `usual` times ESPALIER_SCHEDULES of the environment; at least one. Throws std::invalid_argument if that is not a
/// positive number.
[[nodiscard]] std::uint64_t scaled_schedules(double usual);

}  // namespace espalier::sim
