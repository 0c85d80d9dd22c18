#pragma once

#include <cstdint>

#include "espalier/workload/random.hpp"

namespace espalier::preload {

/// Which blocks are recorded. Each choice is independent of the program's use of the block, so that dividing by the
/// recorded share gives unbiased figures.
struct sampling {
  enum class kind : std::uint8_t {
    all,
    blocks,   ///< each block with the chance 1 / every
    bytes,    ///< a block of s bytes with the chance min(1, s / every): one for each `every` bytes
    regions,  ///< every block that begins in a chosen 64 KiB of addresses; one in `every` is chosen, so that
              ///< the neighbours of a recorded block are recorded too
  };
  static constexpr unsigned region_bits = 16;

  kind how = kind::all;
  std::uint64_t every = 1;

  /// True where frees of blocks at this address can affect the record.
  [[nodiscard]] bool may_hold(std::uintptr_t address) const noexcept {
    return how != kind::regions || scaled(workload::mix64((address >> region_bits) + 1)) == 0;
  }

  [[nodiscard]] bool needs_chance() const noexcept { return how == kind::blocks || how == kind::bytes; }

  /// `random` is uniform over all values.
  [[nodiscard]] bool takes(std::uintptr_t address, std::uint64_t bytes, std::uint64_t random) const noexcept {
    switch (how) {
      case kind::all:
        return true;
      case kind::blocks:
        return scaled(random) == 0;
      case kind::bytes:
        return scaled(random) < (bytes == 0 ? 1 : bytes);
      case kind::regions:
        return may_hold(address);
    }
    return true;
  }

 private:
  /// Uniform below `every`.
  [[nodiscard]] std::uint64_t scaled(std::uint64_t random) const noexcept {
    return static_cast<std::uint64_t>((workload::detail::uint128{random} * every) >> 64U);
  }
};

}  // namespace espalier::preload
