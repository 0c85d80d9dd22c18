#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace espalier::preload {

/// What an address is to the heap: ours or somebody else's, in one load. A byte for each 32 MiB of the addresses
/// that the kernel gives without being asked for higher ones. Four MiB of which only the pages that are written
/// have memory; all zero is the first state, so that it can lie in .bss. Any thread.
struct address_registry {
  static constexpr unsigned unit_bits = 25;
  static constexpr std::size_t unit_bytes = std::size_t{1} << unit_bits;
  static constexpr std::size_t units = std::size_t{1} << (47 - unit_bits);

  enum kind : std::uint8_t { foreign = 0, span = 1, huge = 2 };

  [[nodiscard]] kind of(const void* address) const noexcept {
    const std::size_t unit = reinterpret_cast<std::uintptr_t>(address) >> unit_bits;
    return unit < units ? of_unit(unit) : foreign;
  }
  [[nodiscard]] kind of_unit(std::size_t unit) const noexcept {
    // relaxed: who gives a block back was handed it by somebody who was handed it behind the entry.
    return static_cast<kind>(
        std::atomic_ref(const_cast<std::uint8_t&>(kinds[unit])).load(std::memory_order_relaxed));
  }

  /// The unit of an address that the kernel gives unasked; a higher one shares its unit with one of these. For the short
  /// path, which goes on from there: an instruction less than to compare.
  [[nodiscard]] static std::size_t unit_of(const void* address) noexcept {
    std::size_t unit = (reinterpret_cast<std::uintptr_t>(address) >> unit_bits) % units;
    // What begins there is then a shift, and no second mask.
    asm("" : "+r"(unit));
    return unit;
  }

  /// Of whole units.
  void enter(const void* begin, std::size_t bytes, kind as) noexcept {
    const std::size_t first = reinterpret_cast<std::uintptr_t>(begin) >> unit_bits;
    for (std::size_t unit = first; unit < first + bytes / unit_bytes; ++unit)
      std::atomic_ref(kinds[unit]).store(as, std::memory_order_relaxed);
  }

  std::uint8_t kinds[units];
};

}  // namespace espalier::preload
