#include "espalier/memory/parts/index_class.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <set>

namespace espalier::index_class {
namespace {

TEST(index_class, each_class_is_found_by_its_own_size_and_no_smaller_one_holds_a_block) {
  std::size_t before = 0;
  for (std::size_t c = 0; c < count; ++c) {
    const std::size_t stride = shape_of(c).stride;
    EXPECT_GT(stride, before) << "class " << c;
    EXPECT_EQ(of(stride, 1), c);
    if (before >= 64) {
      EXPECT_EQ(of(before + 1, 1), c);
    }
    before = stride;
  }
  EXPECT_EQ(before, largest_bytes);
  EXPECT_EQ(of(largest_bytes + 1, 1), none);
  EXPECT_EQ(of(static_cast<std::size_t>(-1), 1), none);
}

TEST(index_class, blocks_hold_what_was_asked_aligned) {
  for (std::size_t align = 1; align <= 64; align *= 2) {
    for (std::size_t bytes = 1; bytes <= largest_bytes; ++bytes) {
      const shape s = shape_of(of(bytes, align));
      ASSERT_GE(s.stride, bytes);
      ASSERT_EQ(s.stride % align, 0U) << bytes << " aligned to " << align;
      ASSERT_TRUE(s.stride < line || s.stride % line == 0);
    }
  }
}

TEST(index_class, from_a_line_on_any_64_blocks_of_a_period_begin_at_64_indices) {
  for (std::size_t c = of(64, 64); c < count; ++c) {
    const shape s = shape_of(c);
    const bool odd = s.stride / line % 2 == 1;
    EXPECT_EQ(s.punctuated, !odd);
    if (!odd) {
      EXPECT_LE(s.stride, 6 * line);
    }
    // Where a line is left out, periods begin at multiples of 64 blocks.
    for (std::size_t first = 0; first < 256; first += odd ? 1 : 64) {
      std::set<std::size_t> visited;
      for (std::size_t i = first; i < first + 64; ++i) visited.insert(s.offset(i) / line % indices);
      ASSERT_EQ(visited.size(), 64U) << s.stride << " bytes, from block " << first;
    }
  }
}

TEST(index_class, a_block_is_found_by_each_of_its_bytes) {
  for (std::size_t c = 0; c < count; ++c) {
    const shape s = shape_of(c);
    for (std::size_t i = 0; i < 200; ++i) {
      ASSERT_EQ(s.block_at(s.offset(i)), i) << "class " << c;
      ASSERT_EQ(s.block_at(s.offset(i) + s.stride - 1), i);
      ASSERT_GE(s.offset(i + 1), s.offset(i) + s.stride);
      ASSERT_EQ(s.block_at(s.offset(i + 1) - 1), i) << "the line left out";
    }
  }
}

TEST(index_class, rounding_costs_what_the_header_says) {
  const auto held = [](std::size_t bytes) {
    const shape s = shape_of(of(bytes, 1));
    return static_cast<double>(s.offset(384)) / 384 / static_cast<double>(bytes);
  };
  double worst = 0;
  for (std::size_t bytes = 320; bytes <= largest_bytes; ++bytes) worst = std::max(worst, held(bytes));
  EXPECT_LE(worst, 1.29);
  EXPECT_EQ(worst, held(449));
  worst = 0;
  for (std::size_t bytes = 4096; bytes <= largest_bytes; ++bytes) worst = std::max(worst, held(bytes));
  EXPECT_LE(worst, 1.15);
  worst = 0;
  for (std::size_t bytes = 64; bytes < 320; ++bytes) worst = std::max(worst, held(bytes));
  EXPECT_LE(worst, 2.0);
}

TEST(index_class, small_blocks_are_dense_and_straddle_no_line_where_they_divide_one) {
  EXPECT_EQ(shape_of(of(1, 1)).stride, 16U);
  EXPECT_EQ(shape_of(of(24, 8)).stride, 24U);
  EXPECT_EQ(shape_of(of(33, 16)).stride, 48U);
  EXPECT_EQ(shape_of(of(33, 32)).stride, 64U);
  EXPECT_EQ(shape_of(of(56, 8)).stride, 64U);
  EXPECT_EQ(shape_of(of(64, 64)).stride, 64U);
}

TEST(index_class, room_for_an_alignment_above_a_line) {
  EXPECT_EQ(bytes_within(100, 64), 100U);
  for (std::size_t align = 128; align <= 4096; align *= 2) {
    for (std::size_t begin = 0; begin < 2 * align; begin += line) {
      const std::size_t aligned = (begin + align - 1) / align * align;
      EXPECT_LE(aligned + 100, begin + bytes_within(100, align));
    }
  }
}

}  // namespace
}  // namespace espalier::index_class
