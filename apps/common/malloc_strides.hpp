#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>

// The distance between consecutive blocks of one size: the size classes of common mallocs, as formulas of our own.

namespace espalier::app {

/// The common granule.
inline constexpr std::size_t malloc_granule = 16;

constexpr std::size_t rounded_up(std::size_t bytes, std::size_t multiple) noexcept {
  return (bytes + multiple - 1) / multiple * multiple;
}

/// glibc's: 8 bytes of its own before each block, rounded up to the granule; at least two granules.
constexpr std::size_t glibc_stride(std::size_t bytes) noexcept {
  return std::max(rounded_up(bytes + 8, malloc_granule), 2 * malloc_granule);
}

inline constexpr std::size_t fine_class_bytes = 128;
inline constexpr std::size_t classes_per_doubling = 4;

/// jemalloc's, and except for details those of tcmalloc and mimalloc: multiples of the granule up to fine_class_bytes,
/// then a fixed number of classes per doubling.
constexpr std::size_t size_class_stride(std::size_t bytes) noexcept {
  if (bytes <= fine_class_bytes) return std::max(rounded_up(bytes, malloc_granule), malloc_granule);
  return rounded_up(bytes, std::bit_floor(bytes - 1) / classes_per_doubling);
}

}  // namespace espalier::app
