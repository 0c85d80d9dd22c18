#pragma once

#include <cstddef>

#include "espalier/hw/cache_line.hpp"

// Size classes of the slab arenas: every multiple of eight bytes up to a bound. A map has few distinct block
// sizes, so there may be many classes; they should waste little. Blocks have at least 16 bytes, because a free
// one holds two links.

namespace espalier::size_class {

inline constexpr std::size_t granule = 8;
inline constexpr std::size_t smallest = 16;
inline constexpr std::size_t largest = 1024;
inline constexpr std::size_t count = largest / granule + 1;

[[nodiscard]] constexpr std::size_t round_up(std::size_t bytes, std::size_t multiple) noexcept {
  return (bytes + multiple - 1) / multiple * multiple;
}

/// Bytes held by a block: at least `smallest`, and a multiple of its alignment, so that blocks laid end to
/// end are all aligned. A block that is one granule short of whole cache lines is rounded up to them: with nodes of
/// 56 bytes end to end, three visits of eight would touch a second line, to save an eighth of the memory.
[[nodiscard]] constexpr std::size_t bytes_for(std::size_t bytes, std::size_t align) noexcept {
  const std::size_t atleast = bytes < smallest ? smallest : bytes;
  const std::size_t held = round_up(atleast, align < granule ? granule : align);
  return held % hw::cache_line_bytes == hw::cache_line_bytes - granule ? held + granule : held;
}

/// Index of the class of a block of bytes_for() bytes, below `count` for blocks up to `largest`.
[[nodiscard]] constexpr std::size_t index_of(std::size_t held) noexcept { return held / granule; }

}  // namespace espalier::size_class
