#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>

// From one block to the next where blocks of one size are allocated one after the other: what is known of common
// mallocs' size classes, as formulas of our own writing.

namespace espalier::app {

/// The granule of all of them.
inline constexpr std::size_t malloc_granule = 16;

constexpr std::size_t rounded_up(std::size_t bytes, std::size_t multiple) noexcept {
  return (bytes + multiple - 1) / multiple * multiple;
}

/// glibc's: 8 bytes of its own before each block, rounded to the granule; at least two of those.
constexpr std::size_t glibc_stride(std::size_t bytes) noexcept {
  return std::max(rounded_up(bytes + 8, malloc_granule), 2 * malloc_granule);
}

inline constexpr std::size_t fine_class_bytes = 128;
inline constexpr std::size_t classes_per_doubling = 4;

/// jemalloc's, and but for details those of tcmalloc and mimalloc: multiples of the granule up to fine_class_bytes, then
/// so many classes to each doubling.
constexpr std::size_t size_class_stride(std::size_t bytes) noexcept {
  if (bytes <= fine_class_bytes) return std::max(rounded_up(bytes, malloc_granule), malloc_granule);
  return rounded_up(bytes, std::bit_floor(bytes - 1) / classes_per_doubling);
}

}  // namespace espalier::app
