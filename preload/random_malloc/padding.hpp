#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "espalier/workload/random.hpp"

namespace espalier::preload {

/// The alignment of all blocks; the allocator would round smaller amounts up.
inline constexpr std::size_t padding_step = 16;

/// The size that RAND of "The Influence of Malloc Placement on TSX Hardware Transactional Memory" (Dice, Harris,
/// Kogan and Lev, section 2) requests from the next allocator in place of `bytes`. It is `bytes` or up to `largest`
/// more, at most twice `bytes`; each multiple of the step is equally likely. The amount is a multiple of the
/// alignment, so that a size that was a multiple stays one. Nothing is added where that would be too much, or where
/// the request must fail. O(1).
[[nodiscard]] constexpr std::size_t padded(std::size_t bytes, std::size_t align, std::size_t largest,
                                           workload::random_generator& random) noexcept {
  const std::size_t step = std::max(align, padding_step);
  const std::size_t most = std::min(largest, bytes);
  if (most < step || bytes > std::size_t{PTRDIFF_MAX} - largest) return bytes;
  return bytes + step * random.below(most / step + 1);
}

}  // namespace espalier::preload
