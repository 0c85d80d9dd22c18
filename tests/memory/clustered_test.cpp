#include "espalier/memory/clustered.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <thread>
#include <vector>

#include "support/on_threads.hpp"

namespace espalier {
namespace {

constexpr block node32{32, 32, memory_role::node};
constexpr block node16{16, 16, memory_role::node};

std::uintptr_t line_of(const void* memory) {
  return reinterpret_cast<std::uintptr_t>(memory) / hw::cache_line_bytes;
}

TEST(clustered, a_node_lies_in_the_line_of_the_one_it_is_asked_for_near) {
  clustered source;
  for (int i = 0; i < 500; ++i) {
    void* const parent = source.allocate(node32);
    void* const child = source.allocate(node32, parent);
    EXPECT_NE(child, parent);
    EXPECT_EQ(line_of(child), line_of(parent));
    void* const second = source.allocate(node32, parent);
    EXPECT_NE(line_of(second), line_of(parent)) << "there was room for one";
  }
}

TEST(clustered, four_small_nodes_fill_a_line) {
  clustered source;
  void* const first = source.allocate(node16);
  std::set<void*> line{first};
  for (int i = 0; i < 3; ++i) {
    void* const next = source.allocate(node16, first);
    EXPECT_EQ(line_of(next), line_of(first));
    line.insert(next);
  }
  EXPECT_EQ(line.size(), 4U);
  EXPECT_NE(line_of(source.allocate(node16, first)), line_of(first));
}

TEST(clustered, a_block_without_a_neighbour_opens_a_line) {
  clustered source;
  int stranger = 0;
  void* const elsewhere = source.allocate({40, 8, memory_role::node});
  std::set<std::uintptr_t> lines;
  for (const void* const near : {static_cast<const void*>(nullptr), static_cast<const void*>(&stranger),
                                 static_cast<const void*>(elsewhere)}) {
    for (int i = 0; i < 10; ++i) lines.insert(line_of(source.allocate(node32, near)));
  }
  EXPECT_EQ(lines.size(), 30U);
}

TEST(clustered, room_that_comes_free_is_found_again_and_whole_lines_are_used_again) {
  clustered source;
  void* const parent = source.allocate(node32);
  void* const child = source.allocate(node32, parent);
  for (int i = 0; i < 5; ++i) {
    source.deallocate(child, node32);
    EXPECT_EQ(source.allocate(node32, parent), child);
  }
  source.deallocate(parent, node32);
  EXPECT_EQ(source.allocate(node32, child), parent);
  source.deallocate(child, node32);
  source.deallocate(parent, node32);
  EXPECT_EQ(source.usage().blocks, 0U);

  std::vector<void*> nodes;
  std::uint64_t reserved = 0;
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 2000; ++i)
      nodes.push_back(source.allocate(node32, i % 2 == 0 ? nullptr : nodes.back()));
    EXPECT_EQ(source.usage().blocks, 2000U);
    EXPECT_EQ(source.usage().bytes_in_use, 2000U * 32);
    if (round == 0) reserved = source.usage().bytes_reserved;
    EXPECT_EQ(source.usage().bytes_reserved, reserved);
    for (void* const n : nodes) source.deallocate(n, node32);
    nodes.clear();
  }
}

TEST(clustered, threads_that_share_lines_never_share_a_block) {
  clustered source;
  // Anchors keep each line alive; the threads compete for the room beside them.
  std::array<void*, 8> anchors{};
  for (void*& a : anchors) a = source.allocate(node16);
  test::on_threads(4, [&](int worker) {
    const auto t = static_cast<std::uint64_t>(worker) + 1;
    std::vector<std::uint64_t*> mine;
    for (std::uint64_t i = 0; i < 20000; ++i) {
      if (mine.size() < 4) {
        auto* const words = static_cast<std::uint64_t*>(source.allocate(node16, anchors[i % anchors.size()]));
        words[0] = t;
        words[1] = i;
        mine.push_back(words);
      } else {
        ASSERT_EQ(mine.front()[0], t);
        ASSERT_LT(mine.front()[1], i);
        source.deallocate(mine.front(), node16);
        mine.erase(mine.begin());
      }
    }
    for (std::uint64_t* const words : mine) source.deallocate(words, node16);
  });
  EXPECT_EQ(source.usage().blocks, anchors.size());
}

TEST(clustered, leaves_other_roles_and_sizes_to_the_arenas) {
  clustered source;
  auto* const leaf = static_cast<std::byte*>(source.allocate({32, 32, memory_role::leaf}));
  auto* const next = static_cast<std::byte*>(source.allocate({32, 32, memory_role::leaf}));
  EXPECT_EQ(next - leaf, 32);
  void* const wide = source.allocate({40, 8, memory_role::node});
  EXPECT_EQ(static_cast<std::byte*>(source.allocate({40, 8, memory_role::node}, leaf)) -
                static_cast<std::byte*>(wide),
            40);
}

}  // namespace
}  // namespace espalier
