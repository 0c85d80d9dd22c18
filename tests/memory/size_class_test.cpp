#include "espalier/memory/size_class.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <set>

namespace espalier::size_class {
namespace {

TEST(size_class, a_block_holds_what_was_asked_aligned_and_wastes_less_than_one_alignment) {
  for (std::size_t align = 1; align <= 256; align *= 2) {
    for (std::size_t bytes = 1; bytes <= largest; ++bytes) {
      const std::size_t held = bytes_for(bytes, align);
      ASSERT_GE(held, bytes);
      ASSERT_GE(held, smallest);
      ASSERT_EQ(held % align, 0U);
      ASSERT_EQ(held % granule, 0U);
      const std::size_t step = align < granule ? granule : align;
      if (bytes >= smallest) {
        const std::size_t to_whole_lines = held % hw::cache_line_bytes == 0 ? granule : 0;
        ASSERT_LT(held - bytes, step + to_whole_lines) << bytes << " bytes aligned to " << align;
      }
    }
  }
}

TEST(size_class, each_held_size_has_an_index_of_its_own) {
  std::set<std::size_t> indices;
  for (std::size_t held = smallest; held <= largest; held += granule) {
    EXPECT_LT(index_of(held), count);
    EXPECT_TRUE(indices.insert(index_of(held)).second) << held;
  }
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
}

}  // namespace
}  // namespace espalier::size_class
