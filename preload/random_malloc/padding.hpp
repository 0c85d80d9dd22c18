#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "espalier/measure/random.hpp"

namespace espalier::preload {

/// The alignment of all blocks; the allocator would round smaller amounts up.
inline constexpr std::size_t padding_step = 16;

/// The size that RAND of "The Influence of Malloc Placement on TSX Hardware Transactional Memory" (Dice, Harris,
/// Kogan and Lev, section 2) requests from the next allocator in place of `bytes`. It is `bytes` or up to `largest`
/// more, at most twice `bytes`; each multiple of the step is equally likely. The amount is a multiple of the
/// alignment, so that a size that was a multiple stays one. Nothing is added where that would be too much, or where
/// the request must fail. O(1).
[[nodiscard]] constexpr std::size_t padded(std::size_t bytes, std::size_t align, std::size_t largest,
                                           measure::random_generator& random) noexcept {
  const std::size_t step = std::max(align, padding_step);
  const std::size_t most = std::min(largest, bytes);
  if (most < step || bytes > std::size_t{PTRDIFF_MAX} - largest) return bytes;
  return bytes + step * random.below(most / step + 1);
}

/// Settings of RAND from the environment. preload/README.md lists the variables.
struct random_settings {
  std::uint64_t seed = 0;
  std::size_t largest = 1008;
  bool stats = false;
};

/// Reads ESPALIER_RANDOM_*. Null, or a line without line end that says which variable is wrong and what is valid; all
/// settings then have their defaults. Allocates nothing.
[[nodiscard]] const char* read_random_settings(char* const* environment, random_settings& to) noexcept;

}  // namespace espalier::preload
