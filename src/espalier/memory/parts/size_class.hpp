#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>

#include "espalier/hw/cache_line.hpp"

// Size classes of the slab arenas, up to 2 MiB. A map has few distinct block sizes, so there may be many classes; they
// should waste little.
//
// Up to 1 KiB each multiple of eight bytes is a class. Blocks have at least 16 bytes, because a free one holds two
// links. Above, each doubling has eight classes: a multiple of an eighth of it, plus one line. An odd number of lines
// shares no factor with a power of two, so blocks that follow each other begin at all indices of a cache, where blocks
// of a round size would all begin at few (Afek, Dice and Morrison, "Cache index-aware memory allocation", ISMM 2011).
// Blocks with an alignment above a line have classes of their own, without that line.

namespace espalier::size_class {

inline constexpr std::size_t granule = 8;
inline constexpr std::size_t smallest = 16;
inline constexpr std::size_t line = hw::cache_line_bytes;
/// Up to here each multiple of the granule is a class.
inline constexpr std::size_t fine_most = 1024;
/// A block of these bytes has a class, as far as its alignment is at most that.
inline constexpr std::size_t largest = std::size_t{2} << 20U;

namespace detail {

inline constexpr std::size_t fine_count = fine_most / granule + 1;
inline constexpr std::size_t fine_lines = fine_most / line;
/// As std::bit_width(), whose type differs between libraries: a cast of it is either needed or useless.
constexpr std::size_t bit_width(std::size_t n) noexcept {
  return static_cast<std::size_t>(64 - std::countl_zero(n));
}

inline constexpr std::size_t first_doubling = bit_width(fine_lines);
inline constexpr std::size_t doublings = bit_width(largest / line) - first_doubling;

/// An eighth of the doubling in which a number of lines lies.
constexpr std::size_t step_of(std::size_t lines) noexcept { return std::bit_floor(lines - 1) / 8; }

}  // namespace detail

/// Of classes with and without the line, and of that of one line more than fine_most.
inline constexpr std::size_t count = detail::fine_count + 2 * (detail::doublings * 8 + 1);

[[nodiscard]] constexpr std::size_t round_up(std::size_t bytes, std::size_t multiple) noexcept {
  return (bytes + multiple - 1) / multiple * multiple;
}

/// Whether a block has a class. To be asked first: the other functions may overflow where it has none.
[[nodiscard]] constexpr bool has(std::size_t bytes, std::size_t align) noexcept {
  return bytes <= largest && align <= largest;
}

/// Bytes held by a block: at least `smallest`, and a multiple of its alignment, so that blocks laid end to
/// end are all aligned. A block that is one granule short of whole cache lines is rounded up to them: with nodes of
/// 56 bytes end to end, three visits of eight would touch a second line, to save an eighth of the memory.
[[nodiscard]] constexpr std::size_t bytes_for(std::size_t bytes, std::size_t align) noexcept {
  using namespace detail;
  const std::size_t held = round_up(std::max(bytes, smallest), std::max(align, granule));
  if (held <= fine_most) return held % line == line - granule ? held + granule : held;
  const std::size_t lines = (held + line - 1) / line;
  if (align > line) return round_up(lines, std::max(step_of(lines), align / line)) * line;
  return (round_up(lines - 1, step_of(lines - 1)) + 1) * line;
}

/// Index of the class of a block of bytes_for() bytes, below `count`.
[[nodiscard]] constexpr std::size_t index_of(std::size_t held) noexcept {
  using namespace detail;
  if (held <= fine_most) return held / granule;
  const std::size_t odd = held / line % 2;
  const std::size_t lines = held / line - odd;
  if (lines == fine_lines) return fine_count;
  const std::size_t doubling = bit_width(lines - 1) - first_doubling;
  return fine_count + 2 * (doubling * 8 + lines / step_of(lines) - 8) + odd;
}

}  // namespace espalier::size_class
