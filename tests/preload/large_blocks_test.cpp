#include "preload/heap/large_blocks.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <limits>

#include "heap_fixture.hpp"
#include "preload/kernel/pages.hpp"

namespace espalier::preload {
namespace {

using preload_large_blocks = heap_fixture;
constexpr std::size_t mebibyte = std::size_t{1} << 20U;

TEST_F(preload_large_blocks, may_be_used_to_their_ends) {
  for (const std::size_t bytes :
       {index_class::largest_bytes + 1, 65'520UL, 65'536UL, 262'144UL, mebibyte, 16 * mebibyte,
        16 * mebibyte + 1, large_blocks::most_in_span, large_blocks::most_in_span + 1, 40 * mebibyte}) {
    auto* const block = static_cast<std::byte*>(allocate(mine, bytes));
    ASSERT_NE(block, nullptr) << bytes;
    EXPECT_EQ(address(block) % 64, 0U);
    const std::size_t held = usable(block);
    EXPECT_GE(held, bytes);
    EXPECT_LT(held, bytes + page_bytes);
    EXPECT_EQ(address(block + held) % page_bytes, 0U);
    EXPECT_EQ(block[0], std::byte{0});
    block[0] = block[held - 1] = std::byte{1};
    deallocate(mine, block);
  }
  EXPECT_EQ(heaps.count().used_blocks, 0U);
}

TEST_F(preload_large_blocks, are_aligned_as_asked_for) {
  for (std::size_t align = 128; align <= 128 * mebibyte; align *= 2) {
    for (const std::size_t bytes : {std::size_t{1}, 40'000UL, 3 * mebibyte, 20 * mebibyte}) {
      auto* const block = static_cast<std::byte*>(mine.allocate_aligned(bytes, align));
      ASSERT_NE(block, nullptr) << bytes << " at " << align;
      EXPECT_EQ(address(block) % align, 0U) << bytes;
      EXPECT_GE(usable(block), bytes);
      block[0] = block[usable(block) - 1] = std::byte{1};
      deallocate(mine, block);
    }
  }
  EXPECT_EQ(heaps.count().used_bytes, 0U);
}

TEST_F(preload_large_blocks, begin_at_all_indices_alike) {
  std::array<int, 64> load{};
  for (int i = 0; i < 128; ++i) ++load[address(allocate(mine, 65'520)) >> 6U & 63U];
  for (const int blocks : load) EXPECT_EQ(blocks, 2);
}

TEST_F(preload_large_blocks, come_back_without_the_kernel) {
  heaps.commons().spans.set_keep(2 * mebibyte);
  auto* const first = static_cast<std::byte*>(allocate(mine, mebibyte));
  std::memset(first, 0x77, mebibyte);
  deallocate(mine, first);
  auto* const second = static_cast<std::byte*>(allocate(mine, mebibyte));
  EXPECT_LT(address(second) - address(first) + 64 * 1024, std::size_t{128} * 1024) << "the same regions";
  EXPECT_EQ(second[mebibyte / 2], std::byte{0x77}) << "with their memory";
  deallocate(mine, second);
  auto* const zeroed = static_cast<std::byte*>(mine.allocate_zeroed(mebibyte));
  for (std::size_t i = 0; i < mebibyte; ++i) ASSERT_EQ(zeroed[i], std::byte{0});
  deallocate(mine, zeroed);
}

TEST_F(preload_large_blocks, keep_their_contents_as_they_grow_and_shrink) {
  auto* block = static_cast<unsigned char*>(allocate(mine, 33'000));
  std::size_t filled = 0;
  const auto check = [&](std::size_t upto) {
    for (std::size_t i = 0; i < upto; i += 97) ASSERT_EQ(block[i], i % 251) << i << " of " << upto;
  };
  const auto resize = [&](std::size_t bytes) {
    block = static_cast<unsigned char*>(mine.resize(block, bytes));
    ASSERT_NE(block, nullptr);
    check(filled < bytes ? filled : bytes);
    for (std::size_t i = 0; i < bytes; i += 97) block[i] = static_cast<unsigned char>(i % 251);
    block[usable(block) - 1] = 1;
    filled = bytes;
  };
  for (std::size_t bytes = 33'000; bytes < 100 * mebibyte; bytes = bytes * 3 / 2) resize(bytes);
  for (std::size_t bytes = 100 * mebibyte; bytes > 100; bytes = bytes / 7 * 2) resize(bytes);
  deallocate(mine, block);
  EXPECT_EQ(heaps.count().used_bytes, 0U);
}

TEST_F(preload_large_blocks, grow_in_place_where_there_is_room) {
  void* const block = allocate(mine, mebibyte);
  EXPECT_EQ(mine.resize(block, 5 * mebibyte), block);
  EXPECT_GE(usable(block), 5 * mebibyte);
  void* const other = allocate(mine, 100'000);
  EXPECT_GT(address(other), address(block) + 5 * mebibyte);
  void* huge = allocate(mine, 40 * mebibyte);
  for (std::size_t bytes = 70 * mebibyte; bytes < 200 * mebibyte; bytes += 10 * mebibyte) {
    // What lies behind it is not ours to say.
    void* const before = huge;
    huge = mine.resize(before, bytes);
    ASSERT_NE(huge, nullptr);
    EXPECT_EQ(test_registry.of(huge), address_registry::huge);
  }
  // So that it cannot.
  void* const behind = mmap(static_cast<std::byte*>(huge) + usable(huge), page_bytes, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  void* const moved = mine.resize(huge, 300 * mebibyte);
  EXPECT_NE(moved, huge);
  munmap(behind, page_bytes);
  EXPECT_EQ(test_registry.of(huge), address_registry::foreign);
  deallocate(mine, moved);
}

TEST_F(preload_large_blocks, that_were_moved_lie_where_they_lay_in_their_pages) {
  auto* const huge = static_cast<unsigned char*>(allocate(mine, 40 * mebibyte));
  huge[10 * mebibyte] = 42;
  const std::size_t in_page = address(huge) % page_bytes;
  auto* const moved = static_cast<unsigned char*>(mine.resize(huge, 200 * mebibyte));
  EXPECT_EQ(address(moved) % page_bytes, in_page) << "pages were moved, not bytes";
  EXPECT_EQ(moved[10 * mebibyte], 42);
  EXPECT_EQ(moved[199 * mebibyte], 0);
  EXPECT_EQ(heaps.count().large_blocks, 1U);
  deallocate(mine, moved);
  EXPECT_EQ(heaps.count().large_bytes, 0U);
}

TEST_F(preload_large_blocks, are_refused_and_left_as_they_were) {
  page_source& pages = heaps.commons().pages;
  auto* const huge = static_cast<unsigned char*>(allocate(mine, 40 * mebibyte));
  huge[0] = 1;
  pages.set_limit(pages.bytes());
  const std::size_t before = pages.bytes();
  EXPECT_EQ(allocate(mine, 40 * mebibyte), nullptr);
  EXPECT_EQ(mine.resize(huge, 90 * mebibyte), nullptr);
  EXPECT_EQ(huge[0], 1);
  EXPECT_GE(usable(huge), 40 * mebibyte);
  EXPECT_EQ(pages.bytes(), before);
  deallocate(mine, huge);
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
  for (const std::size_t bytes : {most, most / 2 + 1, most / 2, most - 4096, most / 2 - page_bytes}) {
    EXPECT_EQ(allocate(mine, bytes), nullptr) << bytes;
    EXPECT_EQ(mine.allocate_zeroed(bytes), nullptr) << bytes;
    EXPECT_EQ(mine.allocate_aligned(bytes, 4096), nullptr) << bytes;
  }
  EXPECT_EQ(mine.allocate_aligned(1, most / 2 + 1), nullptr);
  EXPECT_EQ(mine.allocate_aligned(most / 2, most / 4 + 1), nullptr);
}

}  // namespace
}  // namespace espalier::preload
