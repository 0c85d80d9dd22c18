#pragma once

#include <concepts>
#include <cstddef>
#include <string_view>

#include "espalier/hw/cache_line.hpp"

// How large and how aligned a tree node is. The study of ATC 2018 (section 3) traces most of the difference
// between trees of one algorithm to this. An algorithm asks its layout for the alignment of a node with the
// given natural one; everything else about it, control flow included, stays the same.

namespace espalier {

template <class L>
concept node_layout = requires {
  { L::name } -> std::convertible_to<std::string_view>;
  { L::node_align(std::size_t{}, std::size_t{}) } -> std::same_as<std::size_t>;
};

/// The smallest node. One whose size is a power of two below a line is aligned to it: it then never
/// straddles two lines.
struct compact_layout {
  static constexpr std::string_view name = "compact";
  static constexpr std::size_t node_align(std::size_t bytes, std::size_t natural) noexcept {
    const bool power_of_two = (bytes & (bytes - 1)) == 0;
    return power_of_two && bytes <= hw::cache_line_bytes && bytes > natural ? bytes : natural;
  }
};

/// A node for each cache line, as much published code has it.
struct line_layout {
  static constexpr std::string_view name = "line";
  static constexpr std::size_t node_align(std::size_t, std::size_t) noexcept { return hw::cache_line_bytes; }
};

static_assert(node_layout<compact_layout> && node_layout<line_layout>);

}  // namespace espalier
