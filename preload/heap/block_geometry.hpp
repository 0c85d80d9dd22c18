#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "espalier/memory/parts/index_class.hpp"

// Maps sizes to classes by tables, and addresses to blocks without a division: a fast form of memory/parts/index_class.

namespace espalier::preload {

/// The alignment that malloc guarantees for every block.
inline constexpr std::size_t least_align = 16;
inline constexpr std::size_t region_bytes = index_class::region_bytes;

/// Divides offsets within a region by a divisor that is known in advance.
struct reciprocal {
  std::uint64_t factor;

  static constexpr unsigned bits = 40;
  /// Exact for dividends below 2^20 and divisors of at most 2^20: the factor exceeds 2^40 / divisor by less
  /// than one, so a quotient grows by less than dividend / 2^40, which is less than 1 / divisor.
  [[nodiscard]] static constexpr reciprocal of(std::size_t divisor) noexcept {
    return {(std::uint64_t{1} << bits) / divisor + 1};
  }
  [[nodiscard]] constexpr std::size_t divide(std::size_t dividend) const noexcept {
    return dividend * factor >> bits;
  }
};

/// The layout of a class's blocks in a run: index_class::shape.
struct block_geometry {
  std::uint32_t stride;
  std::uint32_t group_bytes;
  std::uint8_t group;
  bool punctuated;
  reciprocal by_stride;
  reciprocal by_group;

  [[nodiscard]] static constexpr block_geometry of(std::size_t size_class) noexcept {
    const index_class::shape s = index_class::shape_of(size_class);
    const std::size_t group_bytes = s.group * s.stride + (s.punctuated ? index_class::line : 0);
    return {static_cast<std::uint32_t>(s.stride),
            static_cast<std::uint32_t>(group_bytes),
            static_cast<std::uint8_t>(s.group),
            s.punctuated,
            reciprocal::of(s.stride),
            reciprocal::of(group_bytes)};
  }

  /// The start of the block that contains an offset of a run. In a line left out, that of the block before it.
  [[nodiscard]] constexpr std::size_t start_of(std::size_t offset) const noexcept {
    const std::size_t before = punctuated ? by_group.divide(offset) * group_bytes : 0;
    const std::size_t in_group = by_stride.divide(offset - before);
    return before + (punctuated && in_group == group ? in_group - 1 : in_group) * stride;
  }
};

inline constexpr std::array<block_geometry, index_class::count> geometries = [] {
  std::array<block_geometry, index_class::count> all{};
  for (std::size_t c = 0; c < index_class::count; ++c) all[c] = block_geometry::of(c);
  return all;
}();

/// Up to this size a table by units of 16 bytes gives the class, above it a table by cache lines.
inline constexpr std::size_t dense_bytes = 1024;
inline constexpr std::size_t granules = dense_bytes / least_align + 1;

[[nodiscard]] constexpr std::size_t granules_of(std::size_t bytes) noexcept {
  return (bytes + least_align - 1) / least_align;
}

inline constexpr std::array<std::uint8_t, granules> classes_by_granules = [] {
  std::array<std::uint8_t, granules> all{};
  for (std::size_t g = 0; g < granules; ++g)
    all[g] = static_cast<std::uint8_t>(index_class::of(g * least_align, least_align));
  return all;
}();

inline constexpr std::array<std::uint8_t, index_class::largest_bytes / index_class::line + 1>
    classes_by_lines = [] {
      std::array<std::uint8_t, index_class::largest_bytes / index_class::line + 1> all{};
      for (std::size_t lines = 0; lines < all.size(); ++lines)
        all[lines] = static_cast<std::uint8_t>(index_class::of(lines * index_class::line, least_align));
      return all;
    }();

/// The size class of a block aligned to 16 bytes; index_class::none above index_class::largest_bytes.
[[nodiscard]] constexpr std::size_t class_of(std::size_t bytes) noexcept {
  if (bytes <= dense_bytes) return classes_by_granules[granules_of(bytes)];
  if (bytes > index_class::largest_bytes) return index_class::none;
  return classes_by_lines[(bytes + index_class::line - 1) / index_class::line];
}

}  // namespace espalier::preload
