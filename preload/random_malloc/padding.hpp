#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "espalier/workload/random.hpp"

namespace espalier::preload {

/// Blocks are aligned to that; less would be rounded up by the allocator.
inline constexpr std::size_t padding_step = 16;

/// What RAND of "The Influence of Malloc Placement on TSX Hardware Transactional Memory" (Dice, Harris, Kogan and
/// Lev, section 2) asks the next allocator for in place of `bytes`: as many, or up to `largest` more, but never more
/// than twice as many; each multiple of the step equally often. Of the alignment it is a multiple, so that a request
/// that was one stays one; where that is too much, and where the request is hopeless, nothing is added. O(1).
[[nodiscard]] constexpr std::size_t padded(std::size_t bytes, std::size_t align, std::size_t largest,
                                           workload::random_generator& random) noexcept {
  const std::size_t step = std::max(align, padding_step);
  const std::size_t most = std::min(largest, bytes);
  if (most < step || bytes > std::size_t{PTRDIFF_MAX} - largest) return bytes;
  return bytes + step * random.below(most / step + 1);
}

}  // namespace espalier::preload
