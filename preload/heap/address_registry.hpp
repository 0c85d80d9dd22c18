#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace espalier::preload {

/// Answers with one load whether an address belongs to this heap. It has one byte for each 32 MiB of the
/// addresses that the kernel assigns by default. The table has 4 MiB of addresses, of which only the pages
/// that are written take memory. Its initial state is all zero, so it can lie in .bss. Any thread.
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
    // relaxed: a block's address reaches the freeing thread after the entry is written, by the
    // program's own synchronisation.
    return static_cast<kind>(
        std::atomic_ref(const_cast<std::uint8_t&>(kinds[unit])).load(std::memory_order_relaxed));
  }

  /// The unit of an address that the kernel assigns by default. A higher address shares its unit with one of
  /// these. For the fast path, which checks further: it is one instruction shorter than a comparison.
  [[nodiscard]] static std::size_t unit_of(const void* address) noexcept {
    std::size_t unit = (reinterpret_cast<std::uintptr_t>(address) >> unit_bits) % units;
    // The compiler then computes the unit's start by a shift, without a second mask.
    asm("" : "+r"(unit));
    return unit;
  }

  /// `begin` and `bytes` are whole units.
  void enter(const void* begin, std::size_t bytes, kind as) noexcept {
    const std::size_t first = reinterpret_cast<std::uintptr_t>(begin) >> unit_bits;
    // relaxed: an address that is mapped reaches its user after the entry is written. One that is unmapped reaches
    // the next mapping after that, ordered by the kernel's lock.
    for (std::size_t unit = first; unit < first + bytes / unit_bytes; ++unit)
      std::atomic_ref(kinds[unit]).store(as, std::memory_order_relaxed);
  }

  std::uint8_t kinds[units];
};

}  // namespace espalier::preload
