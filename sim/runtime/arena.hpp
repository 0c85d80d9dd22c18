#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

// The memory of a simulated program: stacks, heap and pages in one range of addresses that is the same in every
// process. Cache sets, neighbours and homes are then the same from run to run, despite address space randomisation in
// the rest of the process.

namespace espalier::sim::arena {

inline constexpr std::size_t gib = std::size_t{1} << 30U;

inline constexpr std::uintptr_t base = 0x1000'0000'0000;
inline constexpr std::uintptr_t stacks = base;
inline constexpr std::size_t stacks_bytes = 1 * gib;
inline constexpr std::uintptr_t heap = stacks + stacks_bytes;
inline constexpr std::size_t heap_bytes = 31 * gib;
inline constexpr std::uintptr_t pages = heap + heap_bytes;
inline constexpr std::size_t pages_bytes = 32 * gib;
inline constexpr std::size_t bytes = stacks_bytes + heap_bytes + pages_bytes;

/// The program's own globals follow, at simulated addresses that do not depend on where it was loaded.
inline constexpr std::uint64_t image_bytes = 1 * gib;
inline constexpr std::uint64_t address_space_bytes = bytes + image_bytes;

/// Reserves the range; memory is backed when it is touched. Idempotent. Throws std::runtime_error if the range is
/// occupied, or if the system refuses so much address space.
void reserve();

[[nodiscard]] constexpr bool contains(std::uintptr_t address) noexcept { return address - base < bytes; }
[[nodiscard]] constexpr bool in_stacks(std::uintptr_t address) noexcept {
  return address - stacks < stacks_bytes;
}
[[nodiscard]] constexpr bool in_heap(std::uintptr_t address) noexcept { return address - heap < heap_bytes; }

/// The simulated address of an address of this process. nullopt for memory in neither arena nor program: the stack of
/// main, other libraries, the simulator's own data. Those addresses change from run to run.
[[nodiscard]] std::optional<std::uint64_t> simulated(std::uintptr_t address) noexcept;

}  // namespace espalier::sim::arena
