#include "espalier/memory/parts/size_class.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <vector>

namespace espalier::size_class {
namespace {

/// Every small size, and many of each doubling above.
std::vector<std::size_t> sizes() {
  std::vector<std::size_t> all;
  for (std::size_t bytes = 1; bytes <= largest; bytes += bytes < 2 * fine_most ? 1 : bytes / 100) {
    all.push_back(bytes);
  }
  for (std::size_t round = fine_most; round <= largest; round *= 2) {
    for (const std::size_t bytes : {round - 1, round, round + 1, round + line}) {
      if (bytes <= largest) all.push_back(bytes);
    }
  }
  return all;
}

TEST(size_class, a_block_holds_what_was_asked_aligned_and_wastes_little) {
  for (std::size_t align = 1; align <= largest; align *= 2) {
    for (const std::size_t bytes : sizes()) {
      const std::size_t held = bytes_for(bytes, align);
      ASSERT_TRUE(has(bytes, align));
      ASSERT_GE(held, bytes);
      ASSERT_GE(held, smallest);
      ASSERT_EQ(held % align, 0U);
      ASSERT_EQ(held % granule, 0U);
      ASSERT_LT(index_of(held), count);
      if (bytes < smallest) continue;
      const std::size_t step = std::max(align, granule);
      if (held > fine_most) {
        ASSERT_LE(held - bytes, std::max(bytes / 8 + line, step)) << bytes << " bytes aligned to " << align;
      } else {
        const std::size_t to_whole_lines = held % line == 0 ? granule : 0;
        ASSERT_LT(held - bytes, step + to_whole_lines) << bytes << " bytes aligned to " << align;
      }
    }
  }
}

TEST(size_class, each_held_size_has_an_index_of_its_own) {
  std::map<std::size_t, std::size_t> held_at;
  for (std::size_t align = 1; align <= largest; align *= 2) {
    for (const std::size_t bytes : sizes()) {
      const std::size_t held = bytes_for(bytes, align);
      EXPECT_EQ(held_at.emplace(index_of(held), held).first->second, held);
    }
  }
}

TEST(size_class, large_blocks_without_an_alignment_begin_at_every_index_of_a_cache) {
  for (const std::size_t bytes : sizes()) {
    if (bytes <= fine_most) continue;
    EXPECT_EQ(bytes_for(bytes, line) / line % 2, 1U) << bytes;
    EXPECT_EQ(bytes_for(bytes, line), bytes_for(bytes, 1)) << bytes;
  }
}

TEST(size_class, what_is_too_large_has_none) {
  EXPECT_FALSE(has(largest + 1, 8));
  EXPECT_FALSE(has(8, 2 * largest));
  EXPECT_FALSE(has(std::numeric_limits<std::size_t>::max(), 8));
}

TEST(size_class, sizes_of_tree_nodes) {
  EXPECT_EQ(bytes_for(1, 1), 16U);
  EXPECT_EQ(bytes_for(24, 8), 24U);
  EXPECT_EQ(bytes_for(32, 32), 32U);
  EXPECT_EQ(bytes_for(40, 8), 40U);
  EXPECT_EQ(bytes_for(40, 16), 48U);
  EXPECT_EQ(bytes_for(40, 64), 64U);
  EXPECT_EQ(bytes_for(48, 8), 48U);
  EXPECT_EQ(bytes_for(56, 8), 64U);
  EXPECT_EQ(bytes_for(64, 8), 64U);
  EXPECT_EQ(bytes_for(112, 8), 112U);
  EXPECT_EQ(bytes_for(120, 8), 128U);
  EXPECT_EQ(bytes_for(1024, 8), 1024U);
  EXPECT_EQ(bytes_for(1025, 8), 17 * line);
  EXPECT_EQ(bytes_for(4096, 8), 65 * line);
  EXPECT_EQ(bytes_for(4096, 4096), 4096U);
  EXPECT_EQ(bytes_for(largest, 8), largest + line);
}

}  // namespace
}  // namespace espalier::size_class
