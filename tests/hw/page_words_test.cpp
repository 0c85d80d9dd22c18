#include "espalier/hw/page_words.hpp"

#include <gtest/gtest.h>

namespace espalier::hw {
namespace {

TEST(page_words, a_page_in_memory_has_a_frame) {
  constexpr std::uint64_t word = std::uint64_t{0x8180'0000'0001'2345};  // soft-dirty and exclusive besides
  EXPECT_TRUE(is_in_memory(word));
  EXPECT_EQ(frame_of(word), 0x12345U);
  EXPECT_FALSE(is_in_memory(word & ~(std::uint64_t{1} << 63U)));
  EXPECT_EQ(frame_of(~std::uint64_t{0}), (std::uint64_t{1} << 55U) - 1);
}

TEST(page_words, huge_pages_are_of_two_kinds) {
  constexpr std::uint64_t hugetlb = std::uint64_t{1} << 17U;
  constexpr std::uint64_t transparent = std::uint64_t{1} << 22U;
  EXPECT_TRUE(is_huge(hugetlb, 5, 6));
  EXPECT_TRUE(is_huge(transparent, 512 * 7 + 3, 512 * 9 + 3));
  EXPECT_FALSE(is_huge(transparent, 512 * 7 + 3, 512 * 9 + 4)) << "of another size";
  EXPECT_FALSE(is_huge(~(hugetlb | transparent), 512 * 7 + 3, 512 * 9 + 3));
}

}  // namespace
}  // namespace espalier::hw
