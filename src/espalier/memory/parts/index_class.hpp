#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "espalier/hw/cache_line.hpp"
#include "espalier/memory/parts/size_class.hpp"

// The class table of index-aware allocation (Afek, Dice and Morrison, "Cache index-aware memory allocation",
// ISMM 2011): the stride at which the blocks of a size follow each other, so that their starts visit every index
// of a cache with a power of two of indices.
//
// From one line on, blocks are whole lines at a stride of an odd number of them. An odd number shares no
// factor with a power of two, so any 64 blocks in a row begin at 64 different indices of a cache of 64 sets,
// and likewise in larger caches (the variant of "The Influence of Malloc Placement on TSX Hardware
// Transactional Memory", section 2). Blocks of two, four and six lines would lose a half, a quarter and a
// sixth by that. They follow each other without a gap, and a line is left out wherever the indices would repeat:
// the punctuated arrays of the ISMM paper. Blocks smaller than a line are dense: a line holds several.
//
// What rounding costs, as bytes held over bytes asked: from 320 bytes on 1.29 at worst (449 bytes in 9
// lines), from 4 KiB on 1.15; below 320 bytes 2.0 at worst (65 bytes in 2 lines), below a line as in
// size_class.
//
// All of this is arithmetic, for allocators with any bookkeeping: memory/index_aware and the preloaded malloc.

namespace espalier::index_class {

inline constexpr std::size_t line = hw::cache_line_bytes;
/// Indices of the caches that the table is for: those of a 4 KiB page.
inline constexpr std::size_t indices = 64;

inline constexpr std::size_t count = 65;
/// The result for blocks without a class: those above largest_bytes.
inline constexpr std::size_t none = count;
inline constexpr std::size_t largest_bytes = 513 * line;

/// How the blocks of a class lie in a run, which begins on a line.
struct shape {
  /// Bytes from one block to the next in a group; all of them belong to the block.
  std::size_t stride;
  /// Blocks until one line is left out; `indices` where none is.
  std::size_t group;
  bool punctuated;

  /// Where block i begins, from the beginning of the run.
  [[nodiscard]] constexpr std::size_t offset(std::size_t i) const noexcept {
    return i * stride + (punctuated ? i / group * line : 0);
  }
  /// The block in which an offset lies, or the one before it if the offset lies in a line left out.
  [[nodiscard]] constexpr std::size_t block_at(std::size_t bytes) const noexcept {
    const std::size_t group_bytes = group * stride + (punctuated ? line : 0);
    return bytes / group_bytes * group + std::min(bytes % group_bytes / stride, group - 1);
  }
};

namespace detail {

inline constexpr std::size_t dense_classes = 5;  // 16, 24, 32, 40 and 48 bytes
inline constexpr std::size_t close_lines = 6;    // each number of lines is a class
inline constexpr std::size_t fine_lines = 65;    // each odd number is
inline constexpr std::size_t first_odd = dense_classes + close_lines;
inline constexpr std::size_t first_coarse = first_odd + (fine_lines - close_lines + 1) / 2;

// Above these, eight classes for each doubling: one line more than a multiple of a power of two.
constexpr std::size_t step_of(std::size_t lines) noexcept { return std::bit_floor(lines - 2) / 8; }

}  // namespace detail

/// The class of a block, below `count`, or `none`. For an alignment above a line the caller asks for bytes_within()
/// and aligns within the block.
[[nodiscard]] constexpr std::size_t of(std::size_t bytes, std::size_t align) noexcept {
  using namespace detail;
  if (bytes > largest_bytes) return none;
  const std::size_t held = bytes <= line ? size_class::bytes_for(bytes, std::min(align, line)) : bytes;
  if (held < line) return held / size_class::granule - size_class::smallest / size_class::granule;
  const std::size_t lines = (held + line - 1) / line;
  if (lines <= close_lines) return dense_classes + lines - 1;
  if (lines <= fine_lines) return first_odd + (lines - close_lines) / 2;
  const std::size_t step = step_of(lines);
  const std::size_t doublings =
      size_class::detail::bit_width(step) - size_class::detail::bit_width(step_of(fine_lines + 1));
  return first_coarse + doublings * 8 + (lines - 2) / step - 8;
}

/// How large a block aligned to a line must be to hold a block of these bytes and this alignment.
[[nodiscard]] constexpr std::size_t bytes_within(std::size_t bytes, std::size_t align) noexcept {
  return align <= line ? bytes : bytes + (align - line);
}

/// Of a class below `count`.
[[nodiscard]] constexpr shape shape_of(std::size_t index) noexcept {
  using namespace detail;
  if (index < dense_classes) return {size_class::smallest + index * size_class::granule, indices, false};
  std::size_t lines = index - dense_classes + 1;
  if (index >= first_coarse) {
    const std::size_t step = step_of(fine_lines + 1) << ((index - first_coarse) / 8);
    lines = step * (9 + (index - first_coarse) % 8) + 1;
  } else if (index >= first_odd) {
    lines = close_lines + 1 + (index - first_odd) * 2;
  }
  // With an even number of lines the indices repeat after `indices` / (the power of two in that number) blocks.
  const std::size_t twos = lines & (~lines + 1);
  return {lines * line, indices / std::min(twos, indices), twos != 1};
}

/// Index-aware memory comes in regions of this size, aligned to it. A region holds one run of blocks.
inline constexpr std::size_t region_bytes = std::size_t{256} << 10U;

/// The number of blocks of a run that begins at this offset of a region.
[[nodiscard]] constexpr std::size_t blocks_from(const shape& of, std::size_t offset) noexcept {
  const std::size_t fit = of.block_at(region_bytes - offset);
  // Where a line is left out, only whole periods visit every index equally often.
  return of.punctuated ? fit - fit % indices : fit;
}

}  // namespace espalier::index_class

// Where the runs begin (the ISMM paper calls it colouring).
namespace espalier {

/// Where in a region a run begins: its index, and the number of pages before it. Runs that begin on different pages
/// stay apart in caches with indices that go beyond a page.
struct run_colour {
  std::size_t index;
  std::size_t page;

  static constexpr std::size_t page_bytes = index_class::indices * index_class::line;
  static constexpr std::size_t pages = 8;

  /// From the beginning of the region. Its first line is in use.
  [[nodiscard]] constexpr std::size_t offset() const noexcept {
    const std::size_t in_page = index % index_class::indices * index_class::line;
    return page % pages * page_bytes + (in_page == 0 ? page_bytes : in_page);
  }
};

namespace index_colour {

/// The numbers below a power of two, each as far as possible from those before it: the bits in reverse.
constexpr std::size_t spread(std::size_t number, std::size_t power_of_two) noexcept {
  std::size_t reversed = 0;
  for (std::size_t bit = 1; bit < power_of_two; bit *= 2) {
    reversed = reversed * 2 + number % 2;
    number /= 2;
  }
  return reversed;
}

/// Multiplicative hashing to an index.
constexpr std::size_t hashed(std::uint64_t number) noexcept {
  return number * 0x9E3779B97F4A7C15U >> (64 - std::bit_width(index_class::indices - 1));
}

/// Where the number-th series of runs of a class begins. Series of one class begin as far from each other in the
/// cycle of the indices as their number allows: the second half a cycle after the first, the third and fourth
/// between these, and so on. Hashing keeps other classes apart.
constexpr std::size_t first_index(std::size_t number, std::size_t size_class) noexcept {
  // The distance is counted in blocks, so that the indices are well apart at every stride.
  const std::size_t blocks = spread(number, index_class::indices);
  const index_class::shape shape = index_class::shape_of(size_class);
  const std::size_t lines =
      shape.stride < index_class::line ? blocks : shape.offset(blocks) / index_class::line;
  return lines + hashed(size_class);
}

/// On which page of its region the number-th run begins.
constexpr std::size_t page_of(std::size_t number) noexcept { return spread(number, run_colour::pages); }

/// For the number-th block too large for a class. 39 is odd and about the golden section of 64: blocks allocated
/// one after the other begin far apart.
constexpr run_colour of_large(std::size_t number) noexcept { return {number * 39, number}; }

}  // namespace index_colour

}  // namespace espalier
