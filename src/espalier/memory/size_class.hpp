#pragma once

#include <cstddef>

// Size classes of the slab arenas: every multiple of eight bytes up to a bound. A map has few distinct block
// sizes, so classes need not be few; they should waste nothing. Blocks of at least 16 bytes, because a free
// one carries two links.

namespace espalier::size_class {

inline constexpr std::size_t granule = 8;
inline constexpr std::size_t smallest = 16;
inline constexpr std::size_t largest = 1024;
inline constexpr std::size_t count = largest / granule + 1;

[[nodiscard]] constexpr std::size_t round_up(std::size_t bytes, std::size_t multiple) noexcept {
  return (bytes + multiple - 1) / multiple * multiple;
}

/// Bytes held by a block: at least `smallest`, and a multiple of its alignment, so that blocks laid end to
/// end are all aligned.
[[nodiscard]] constexpr std::size_t bytes_for(std::size_t bytes, std::size_t align) noexcept {
  const std::size_t atleast = bytes < smallest ? smallest : bytes;
  return round_up(atleast, align < granule ? granule : align);
}

/// Index of the class of a block of bytes_for() bytes, below `count` for blocks up to `largest`.
[[nodiscard]] constexpr std::size_t index_of(std::size_t held) noexcept { return held / granule; }

}  // namespace espalier::size_class
