// Sizes, alignments and addresses. The numbers are the same in every build: what is tested is what ships.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <iterator>

#include "espalier/hw/cache_line.hpp"
#include "espalier/map/node_layout.hpp"
#include "support/model.hpp"
#include "support/suite.hpp"

namespace espalier::test {
namespace {

/// What nodes of studied algorithms have, in bytes, with 64-bit keys and values: compact, and published, 0 where no such
/// entry is; and the part of a compact node that a search reads, where an entry splits nodes.
struct known_node {
  std::string_view algorithm;
  std::size_t compact;
  std::size_t published;
  std::size_t front = 0;
};
constexpr known_node known_nodes[] = {
    {"occ_avl", 56, 112, 32},
    {"occ_avl_2", 56, 64, 32},
    {"edge_int_lf", 32, 40},  // 40 in the literature: whether a node is ready is a bit of its entry
    {"log_int", 64, 192},
    {"citrus", 48, 88},
    {"int_lf", 40, 64},
    {"edge_ext_lf", 32, 0},
    {"edge_ext_lf_2", 32, 64},
    {"ticket", 32, 64},  // 40 in the literature: a router's locks and a leaf's value share a word
    {"ext_lf", 32, 64},  // likewise with a router's update word
    {"ticket/nodes_of_48", 48, 0},
    {"ext_lf/nodes_of_48", 48, 0},
    {"int_lf/wide_descriptors", 64, 0},
    {"global_lock_bst", 32, 0},
    {"hand_over_hand_bst", 40, 0},
    {"locked_map", 48, 0},  // of libstdc++'s std::map: links, colour, entry
    {"mcs_list", 24, 0},
    {"parsec_list", 24, 0},
    {"michael_list", 24, 0},
    {"lazy_list", 32, 0},
    {"optik_list", 32, 0},
    {"rlu_list", 32, 0},
    {"rlu_tree", 40, 0},
    {"masstree", 320, 0},  // a border node, and an interior one as well
    {"masstree@narrow", 128, 0},
    {"htm_masstree", 320, 0},
    {"htm_masstree@narrow", 128, 0},
    {"ordered_map", 4608, 0},
    {"ordered_map@narrow", 384, 0},
    {"olc_btree", 512, 0},  // a leaf, and an inner node as well
    {"olc_btree@narrow", 64, 0},
    {"htm_btree", 512, 0},
    {"htm_btree@narrow", 64, 0},
    {"euno_btree", 512, 0},
    {"euno_btree@narrow", 128, 0},
    {"herlihy_skip_list", 32, 0},  // of one level; each further one has 8 bytes
    {"fraser_skip_list", 32, 0},
    {"optik_skip_list", 32, 0},
    {"partitioned", 4608, 0},
    {"partitioned/ticket", 32, 0},
};

struct placed {
  std::uintptr_t first;
  std::size_t bytes;
  memory_role role;
};

/// The blocks of a map with some thousand random keys, part of which came and went; by address.
std::vector<placed> blocks_of(subject& map) {
  random_source random(4004);
  std::vector<key> keys(3000);
  for (key& k : keys) k = random.next();
  for (const key k : keys) map.plain().insert(k, k);
  for (std::size_t i = 0; i < keys.size(); i += 3) map.plain().erase(keys[i]);
  map.collect();
  for (std::size_t i = 0; i < keys.size(); i += 6) map.plain().insert(keys[i], i);
  std::vector<placed> blocks;
  map.visit_blocks([&](const void* memory, std::size_t bytes, memory_role role) {
    blocks.push_back({reinterpret_cast<std::uintptr_t>(memory), bytes, role});
  });
  std::sort(blocks.begin(), blocks.end(), [](const placed& a, const placed& b) { return a.first < b.first; });
  return blocks;
}

}  // namespace

ESPALIER_SUITE_TAKES(layout) { return type.codec.empty(); }

ESPALIER_CHECK(layout, node_size) {
  ASSERT_TRUE(type.node_bytes.has_value());
  const auto named = [&](std::string_view name) {
    return std::find_if(std::begin(known_nodes), std::end(known_nodes),
                        [&](const known_node& entry) { return entry.algorithm == name; });
  };
  const auto* known = named(type.name);
  if (known == std::end(known_nodes)) known = named(type.algorithm);
  if (known != std::end(known_nodes)) {
    EXPECT_EQ(*type.node_bytes, type.layout == published_layout::name ? known->published : known->compact);
  }
  const auto is_known = [&](memory_role role, std::size_t bytes) {
    if (splits_nodes(type) && known != std::end(known_nodes)) return bytes == known->front;
    const auto of_role = std::ranges::find(type.node_types, role, &node_type::role);
    if (of_role == type.node_types.end()) return bytes == *type.node_bytes;
    return bytes == of_role->bytes || (of_role->growth != 0 && bytes > of_role->bytes &&
                                       (bytes - of_role->bytes) % of_role->growth == 0);
  };
  const auto map = make(type);
  for (const placed& b : blocks_of(*map)) {
    if (b.role == memory_role::node || b.role == memory_role::leaf) {
      ASSERT_TRUE(is_known(b.role, b.bytes)) << b.bytes;
      if (std::has_single_bit(b.bytes) && b.bytes <= hw::cache_line_bytes) {
        ASSERT_EQ(b.first % b.bytes, 0U) << "straddles two lines, or is as little aligned as if it did";
      }
    }
  }
}

ESPALIER_CHECK(layout, half_of_the_towers_have_one_level) {
  // Of nodes that grow there are skip lists alone.
  const auto growing =
      std::ranges::find_if(type.node_types, [](const node_type& node) { return node.growth != 0; });
  if (growing == type.node_types.end()) return;
  const auto map = make(type);
  double all = 0;
  double smallest = 0;
  for (const placed& b : blocks_of(*map)) {
    if (b.role != growing->role) continue;
    ++all;
    if (b.bytes == growing->bytes) ++smallest;
  }
  EXPECT_NEAR(smallest / all, 0.5, 0.05);
}

ESPALIER_CHECK(layout, members_fill_the_node) {
  for (const node_type& node : type.node_types) {
    std::size_t end = 0;
    for (const node_member& m : node.members) {
      EXPECT_FALSE(m.name.empty());
      EXPECT_GT(m.bytes, 0U) << m.name;
      EXPECT_EQ(m.bytes % m.elements, 0U) << m.name;
      EXPECT_GE(m.offset, end) << m.name << " begins in the field before it";
      end = m.offset + m.bytes;
    }
    EXPECT_LE(end, node.bytes) << node.name;
  }
}

ESPALIER_CHECK(layout, no_node_in_two_lines) {
  // What fits lies in one: a node whose size is a power of two up to a line.
  if (!type.node_bytes || !std::has_single_bit(*type.node_bytes) || *type.node_bytes > hw::cache_line_bytes)
    return;
  const auto map = make(type);
  const auto blocks = blocks_of(*map);
  EXPECT_GE(blocks.size(), 2000U);
  for (const placed& b : blocks) {
    // A type of node besides, or a node with more elements.
    if (b.bytes > hw::cache_line_bytes || !std::has_single_bit(b.bytes)) continue;
    ASSERT_EQ(b.first / hw::cache_line_bytes, (b.first + b.bytes - 1) / hw::cache_line_bytes)
        << "a node of " << b.bytes << " bytes straddles two lines at " << std::hex << b.first;
  }
}

ESPALIER_CHECK(layout, blocks_are_apart) {
  const auto map = make(type);
  const auto blocks = blocks_of(*map);
  for (std::size_t i = 1; i < blocks.size(); ++i)
    ASSERT_LE(blocks[i - 1].first + blocks[i - 1].bytes, blocks[i].first);
}

ESPALIER_CHECK(layout, properties_are_filled_in) {
  EXPECT_FALSE(type.properties.name.empty());
  EXPECT_EQ(type.properties.name, type.algorithm);
  EXPECT_FALSE(type.properties.paper.empty());
  EXPECT_NE(to_string(type.properties.find_progress), "");
  EXPECT_NE(to_string(type.properties.update_progress), "");
  // Finding is never harder than updating.
  EXPECT_GE(type.properties.find_progress, type.properties.update_progress);
  // Only readers without locks need protection; only with it can something be retired and not given back.
  EXPECT_TRUE(type.properties.region_protection || type.properties.find_progress == progress::blocking);
  EXPECT_TRUE(type.properties.region_protection || type.reclaims);
}

ESPALIER_CHECK(layout, names_are_unique) {
  EXPECT_EQ(std::count_if(subjects().begin(), subjects().end(),
                          [&](const subject_type& other) { return other.name == type.name; }),
            1);
  EXPECT_EQ(std::count_if(subjects().begin(), subjects().end(),
                          [&](const subject_type& other) {
                            return other.algorithm == type.algorithm && other.variant.empty() &&
                                   other.codec.empty() && other.only_in.empty();
                          }),
            1)
      << "an algorithm has one default";
}

}  // namespace espalier::test
