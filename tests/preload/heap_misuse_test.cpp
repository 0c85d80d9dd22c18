#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "heap_fixture.hpp"

namespace espalier::preload {
namespace {

// What is no block.

using preload_heap_misuse = heap_fixture;
using preload_heap_misuse_death = heap_fixture;

void deallocate_twice(thread_heap& heap, void* block) {
  for (int i = 0; i < 2; ++i) heap_fixture::deallocate(heap, block);
}

TEST_F(preload_heap_misuse_death, of_a_pointer_into_a_block) {
  auto* const block = static_cast<std::byte*>(allocate(mine, 100));
  EXPECT_DEATH(heaps.adopt()->deallocate(block + 16), "espalier: free\\(\\): invalid pointer 0x[0-9a-f]+\n");
  EXPECT_DEATH(mine.deallocate(block + 16), "invalid pointer");
  EXPECT_DEATH(static_cast<void>(usable(block + 32)), "invalid pointer");
  EXPECT_DEATH(static_cast<void>(mine.resize(block + 32, 1000)), "invalid pointer");
}

TEST_F(preload_heap_misuse_death, of_a_block_that_was_never_handed_out) {
  auto* const block = static_cast<std::byte*>(allocate(mine, 64));
  EXPECT_DEATH(mine.deallocate(block + 64), "double free, or never handed out: 0x");
  EXPECT_DEATH(mine.deallocate(block - 64), "invalid pointer");
  EXPECT_DEATH(mine.deallocate(span::of(block)), "never handed out");
  auto* const aligned = static_cast<std::byte*>(mine.allocate_aligned(500, 128));
  EXPECT_DEATH(mine.deallocate(region_of(aligned)->first - 16), "invalid pointer");
}

TEST_F(preload_heap_misuse_death, of_a_block_of_a_full_region_that_was_never_handed_out) {
  auto* const block = static_cast<std::byte*>(one_of_each_full_region(mine, 1, 5000).front());
  region& r = *region_of(block);
  // Too little for a block is left behind the last one.
  ASSERT_GT(span::of(block)->memory(span::number_of(r) + 1) - r.bump, least_align);
  EXPECT_DEATH(mine.deallocate(r.bump), "double free, or never handed out: 0x");
}

TEST_F(preload_heap_misuse_death, of_a_cached_block_twice) {
  const std::vector<void*> blocks = one_of_each_full_region(mine, 2, 700);
  EXPECT_DEATH(
      {
        for (const std::size_t i : {0U, 1U, 0U}) deallocate(mine, blocks[i]);
        mine.free_empty_regions();
      },
      "double free")
      << "when they go back to their regions";
}

TEST_F(preload_heap_misuse_death, of_a_block_twice_running) {
  for (const std::size_t bytes : {16U, 700U, 5000U}) {
    std::array<void*, 5> blocks{};
    for (void*& b : blocks) b = allocate(mine, bytes);
    deallocate(mine, blocks[3]);
    EXPECT_DEATH(deallocate_twice(mine, blocks[1]), "double free, or never handed out: 0x");
    // In a region that has nothing else to give out.
    std::vector<void*> more;
    do {
      more.push_back(allocate(mine, bytes));
    } while (region_of(more.back()) == region_of(blocks[0]));
    EXPECT_DEATH(deallocate_twice(mine, blocks[1]), "double free");
    deallocate(mine, blocks[1]);
    EXPECT_DEATH(mine.deallocate(blocks[1]), "double free") << "by the longer path";
  }
  std::array<void*, 2> aligned{};
  for (void*& b : aligned) b = mine.allocate_aligned(700, 256);
  EXPECT_DEATH(deallocate_twice(mine, aligned[0]), "double free");
}

TEST_F(preload_heap_misuse, takes_blocks_back_again_that_it_handed_out_again) {
  std::array<void*, 3> blocks{};
  for (void*& b : blocks) b = allocate(mine, 700);
  for (int i = 0; i < 3; ++i) {
    deallocate(mine, blocks[0]);
    EXPECT_EQ(allocate(mine, 700), blocks[0]);
    // The last of a list that was, in an empty one.
    deallocate(mine, blocks[0]);
    deallocate(mine, blocks[1]);
    EXPECT_EQ(allocate(mine, 700), blocks[1]);
    EXPECT_EQ(allocate(mine, 700), blocks[0]);
  }
  for (void* const b : blocks) deallocate(mine, b);
  mine.free_empty_regions();
  EXPECT_EQ(heaps.count().regions, 0U);
}

TEST_F(preload_heap_misuse, knows_addresses_that_no_mapping_gets_unasked) {
  // Above what the kernel gives unasked, in the same place of its unit as a region of ours.
  constexpr std::uintptr_t above = std::uintptr_t{1} << 47U;
  const auto at = [](std::uintptr_t place) {
    return reinterpret_cast<void*>(place);  // NOLINT(performance-no-int-to-ptr)
  };
  void* const block = allocate(mine, 700);
  void* const high = at(address(block) | above);
  EXPECT_EQ(test_registry.of(high), address_registry::foreign);
  EXPECT_EQ(test_registry.of(block), address_registry::span);
  EXPECT_EQ(usable(high), 0U);
  // In a unit in which we have nothing: other allocators' blocks are left alone.
  deallocate(mine, at(~std::uintptr_t{0}));
  deallocate(mine, at(above | std::uintptr_t{1} << 20U));
  deallocate(mine, block);
}

TEST_F(preload_heap_misuse_death, of_blocks_of_which_more_come_back_than_were_handed_out) {
  void* const only = allocate(mine, 700);
  EXPECT_DEATH(deallocate_twice(mine, only), "double free");
  void* const aligned = mine.allocate_aligned(700, 256);
  EXPECT_DEATH(deallocate_twice(mine, aligned), "double free");
  // The last two of a region that is not current.
  std::vector<void*> blocks;
  while (heaps.count().regions < 4) blocks.push_back(allocate(mine, 20'000));
  const auto in_first = [&](const void* b) { return region_of(b) == region_of(blocks.front()); };
  const auto last_two = std::find_if_not(blocks.begin(), blocks.end(), in_first) - 2;
  for (auto b = blocks.begin(); b != last_two; ++b) deallocate(mine, *b);
  EXPECT_DEATH(deallocate_twice(mine, *last_two), "double free");
}

TEST_F(preload_heap_misuse_death, of_anothers_block_twice) {
  thread_heap& other = *heaps.adopt();
  std::array<void*, 3> blocks{};
  for (void*& b : blocks) b = allocate(mine, 700);
  EXPECT_DEATH(deallocate_twice(other, blocks[0]), "double free");
  EXPECT_DEATH(
      {
        for (const int i : {0, 1, 2, 0}) deallocate(other, blocks[static_cast<std::size_t>(i)]);
        mine.free_empty_regions();
      },
      "double free")
      << "more than were handed out";
}

TEST_F(preload_heap_misuse_death, of_a_large_block_twice_or_in_its_middle) {
  auto* const block = static_cast<std::byte*>(allocate(mine, 600'000));
  EXPECT_DEATH(mine.deallocate(block + 64), "invalid pointer");
  EXPECT_DEATH(mine.deallocate(block + 300'000), "never handed out");
  deallocate(mine, block);
  EXPECT_DEATH(mine.deallocate(block), "double free");
  auto* const huge = static_cast<std::byte*>(allocate(mine, std::size_t{20} << 20U));
  EXPECT_DEATH(mine.deallocate(huge + 64), "invalid pointer");
  EXPECT_DEATH(mine.deallocate(huge + 100'001), "invalid pointer");
  deallocate(mine, huge);
}

}  // namespace
}  // namespace espalier::preload
