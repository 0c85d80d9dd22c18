#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "espalier/hw/cache_line.hpp"
#include "espalier/memory/placement_concept.hpp"

// How large and how aligned a tree node is, and where its fields lie. The study of ATC 2018 (section 3) traces most of
// the difference between trees of one algorithm to this. An algorithm asks its layout for the shape of its node, and
// for the alignment of a node with the given natural one. Everything else, control flow included, stays the same,
// except where the shape requires otherwise.

namespace espalier {

enum class node_shape : std::uint8_t {
  /// Search fields first, the smallest lock that will do, nothing that the algorithm does not need.
  compact,
  /// As in the implementation that the study measured, with all that its table 3 finds wrong: a mutex of the C library
  /// in each node, padding, fields of the search apart from each other. Where the table finds heavy traversals, readers
  /// record what only updates need.
  published
};

template <class L>
concept node_layout = requires {
  { L::name } -> std::convertible_to<std::string_view>;
  { L::shape } -> std::convertible_to<node_shape>;
  { L::node_align(std::size_t{}, std::size_t{}) } -> std::same_as<std::size_t>;
};

/// The smallest node. If its size is a power of two, up to a line, it is aligned to that: it then never straddles two
/// lines.
struct compact_layout {
  static constexpr std::string_view name = "compact";
  static constexpr node_shape shape = node_shape::compact;
  static constexpr std::size_t node_align(std::size_t bytes, std::size_t natural) noexcept {
    const bool power_of_two = (bytes & (bytes - 1)) == 0;
    return power_of_two && bytes <= hw::cache_line_bytes && bytes > natural ? bytes : natural;
  }
};

/// The published node. Its padding is part of its fields. It was written for malloc, which aligned it to 16 bytes at
/// most; it was aligned to a line only because blocks of such sizes happened to lie so.
struct published_layout {
  static constexpr std::string_view name = "published";
  static constexpr node_shape shape = node_shape::published;
  static constexpr std::size_t node_align(std::size_t bytes, std::size_t natural) noexcept {
    return bytes % hw::cache_line_bytes == 0 ? hw::cache_line_bytes : natural;
  }
};

/// The published node of int_lf with descriptors that share no size class with it: the variant of the study's section 4.6.
struct wide_descriptors_layout : published_layout {
  static constexpr std::string_view name = "wide_descriptors";
  static constexpr std::size_t least_descriptor_bytes = 112;
};

/// The compact node in blocks of 48 bytes: what ticket and ext_lf have in the study without their faults, of which every fourth
/// straddles two lines.
struct nodes_of_48_layout : compact_layout {
  static constexpr std::string_view name = "nodes_of_48";
  static constexpr std::size_t least_node_bytes = 48;
  static constexpr std::size_t node_align(std::size_t /*bytes*/, std::size_t natural) noexcept {
    return natural;
  }
};

static_assert(node_layout<compact_layout> && node_layout<published_layout> &&
              node_layout<nodes_of_48_layout>);

/// The fields of a node, with padding if the layout has more bytes for them.
template <class Fields, node_layout Layout>
struct padded_fields : Fields {
  using Fields::Fields;
};
template <class Fields, node_layout Layout>
  requires(Layout::least_node_bytes > sizeof(Fields))
struct padded_fields<Fields, Layout> : Fields {
  using Fields::Fields;
  std::array<std::byte, Layout::least_node_bytes - sizeof(Fields)> padding;
};

/// What a search that passes a node reads of a field: nothing, all of it, or one half, the edge to one of two children.
enum class search_use : std::uint8_t { none, all, half };

/// A field of a node, for programs that show nodes to people.
struct node_member {
  std::string_view name;
  std::size_t offset;
  std::size_t bytes;
  search_use search = search_use::none;
  /// Of an array.
  std::size_t elements = 1;
};

/// One of the types of a map's nodes.
struct node_type {
  memory_role role;
  std::string_view name;
  std::size_t bytes;
  /// In the order of their offsets; empty if the map does not state them.
  std::vector<node_member> members;
  /// If nodes end with an array whose length differs: `bytes` is that of the smallest, and this that of an element.
  std::size_t growth = 0;
};

/// What a map says of its nodes. A map with nodes of several types has `static std::vector<node_type> node_types()`, a
/// type for each role. Any other has node_bytes, and node_members if it states them.
template <class Map>
[[nodiscard]] std::vector<node_type> node_types_of() {
  std::vector<node_type> types;
  if constexpr (requires { Map::node_types(); }) {
    types = Map::node_types();
  } else if constexpr (requires { Map::node_bytes; }) {
    types.push_back({memory_role::node, to_string(memory_role::node), Map::node_bytes, {}});
    if constexpr (requires { Map::node_members; })
      types.front().members.assign(Map::node_members.begin(), Map::node_members.end());
  }
  return types;
}

/// A member of a node, whose offset is the same in all nodes of the type. For types on which offsetof is not defined.
template <class Node, class Member>
[[nodiscard]] node_member member_of(const Node& n, std::string_view name, const Member& m,
                                    std::size_t elements = 1) noexcept {
  const auto* const begin = reinterpret_cast<const char*>(&n);
  return {name, static_cast<std::size_t>(reinterpret_cast<const char*>(&m) - begin), sizeof(Member),
          search_use::none, elements};
}

}  // namespace espalier
