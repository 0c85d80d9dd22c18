#pragma once

#include <cstdint>

namespace espalier::sim {

/// Computation that takes this time on a simulated machine; nothing elsewhere. For what a simulated program does besides
/// its accesses to memory.
void spend(std::uint64_t cycles) noexcept;

/// The parts of a program whose counts a simulated machine keeps apart: a number below this. Threads begin in part 0.
inline constexpr unsigned most_parts = 2;
/// From now on the running thread's counts are those of this part; returns the former one. Nothing elsewhere.
unsigned count_in(unsigned part) noexcept;

}  // namespace espalier::sim
