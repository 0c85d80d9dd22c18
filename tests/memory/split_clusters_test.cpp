#include "espalier/memory/clustered.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "espalier/memory/parts/slab.hpp"

namespace espalier {
namespace {

using source_type = split_clusters<32, 24>;
constexpr block node32{32, 32, memory_role::node};

std::uintptr_t address_of(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory); }

TEST(split_block, rests_fit_behind_the_fronts) {
  for (const std::size_t front : {16U, 32U, 64U}) {
    for (std::size_t rest = 8; rest <= 512; rest += 8) {
      const split_block shape{front, rest};
      const std::size_t blocks = shape.fronts_bytes() / front;
      EXPECT_EQ(shape.fronts_bytes() % front, 0U);
      EXPECT_LE(shape.fronts_bytes() + blocks * rest, split_block::group_bytes);
      EXPECT_GT(shape.fronts_bytes() + blocks * rest, split_block::group_bytes / 100 * 94);
      const auto group = reinterpret_cast<const std::byte*>(std::uintptr_t{5} * split_block::group_bytes);
      for (const std::size_t i : {std::size_t{0}, std::size_t{1}, blocks / 2, blocks - 1})
        EXPECT_EQ(address_of(shape.rest_of(group + i * front)),
                  address_of(group) + shape.fronts_bytes() + i * rest);
    }
  }
}

TEST(split_clusters, a_node_lies_in_the_line_of_the_one_it_is_asked_for_near) {
  source_type source;
  for (int i = 0; i < 500; ++i) {
    void* const parent = source.allocate(node32);
    void* const child = source.allocate(node32, parent);
    EXPECT_NE(child, parent);
    EXPECT_EQ(address_of(child) / hw::cache_line_bytes, address_of(parent) / hw::cache_line_bytes);
    EXPECT_NE(address_of(source.allocate(node32, parent)) / hw::cache_line_bytes,
              address_of(parent) / hw::cache_line_bytes)
        << "there was room for one";
  }
}

// Enough for several groups and several spans.
TEST(split_clusters, no_two_parts_share_a_byte) {
  source_type source;
  std::vector<void*> nodes;
  constexpr std::size_t count = 200'000;
  for (std::size_t i = 0; i < count; ++i) {
    nodes.push_back(source.allocate(node32, i % 3 == 0 ? nullptr : nodes.back()));
    std::memset(nodes.back(), static_cast<int>(i % 251), 32);
    std::memset(source_type::rest_of(nodes.back()), static_cast<int>(i % 241), 24);
  }
  std::vector<std::pair<std::uintptr_t, std::size_t>> parts;
  for (std::size_t i = 0; i < count; ++i) {
    const auto* const front = static_cast<const std::byte*>(nodes[i]);
    const auto* const rest = static_cast<const std::byte*>(source_type::rest_of(front));
    ASSERT_TRUE(std::all_of(front, front + 32, [&](std::byte b) { return b == std::byte(i % 251); }));
    ASSERT_TRUE(std::all_of(rest, rest + 24, [&](std::byte b) { return b == std::byte(i % 241); }));
    ASSERT_EQ(address_of(rest) % 8, 0U);
    parts.emplace_back(address_of(front), 32);
    parts.emplace_back(address_of(rest), 24);
  }
  std::sort(parts.begin(), parts.end());
  for (std::size_t i = 1; i < parts.size(); ++i)
    ASSERT_LE(parts[i - 1].first + parts[i - 1].second, parts[i].first);
  EXPECT_EQ(source.usage().blocks, count);
  EXPECT_EQ(source.usage().bytes_in_use, count * 56);
  EXPECT_GE(source.usage().bytes_reserved, source.usage().bytes_in_use);
}

TEST(split_clusters, what_comes_back_is_used_again) {
  source_type source;
  std::uint64_t reserved = 0;
  for (int round = 0; round < 4; ++round) {
    std::vector<void*> nodes;
    for (int i = 0; i < 100'000; ++i)
      nodes.push_back(source.allocate(node32, i % 2 == 0 ? nullptr : nodes.back()));
    if (round == 0) reserved = source.usage().bytes_reserved;
    EXPECT_EQ(source.usage().bytes_reserved, reserved);
    for (void* const n : nodes) source.deallocate(n, node32);
    EXPECT_EQ(source.usage().blocks, 0U);
    EXPECT_EQ(source.usage().bytes_in_use, 0U);
  }
}

TEST(split_clusters, a_small_map_takes_little) {
  source_type source;
  for (int i = 0; i < 10; ++i) EXPECT_NE(source.allocate(node32), nullptr);
  EXPECT_LE(source.usage().bytes_reserved, std::size_t{16} << 10U);
}

TEST(split_clusters, leaves_other_roles_and_sizes_to_the_arenas) {
  source_type source;
  auto* const leaf = static_cast<std::byte*>(source.allocate({32, 32, memory_role::leaf}));
  EXPECT_EQ(static_cast<std::byte*>(source.allocate({32, 32, memory_role::leaf})) - leaf, 32);
  auto* const wide = static_cast<std::byte*>(source.allocate({48, 8, memory_role::node}));
  EXPECT_EQ(static_cast<std::byte*>(source.allocate({48, 8, memory_role::node})) - wide, 48);
}

}  // namespace
}  // namespace espalier
