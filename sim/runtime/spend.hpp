#pragma once

#include <cstdint>

namespace espalier::sim {

/// Computation that takes this time on a simulated machine; nothing elsewhere. For what a simulated program does besides
/// its accesses to memory.
void spend(std::uint64_t cycles) noexcept;

}  // namespace espalier::sim
