#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <limits>
#include <set>
#include <vector>

#include "heap_fixture.hpp"
#include "preload/heap/block_geometry.hpp"
#include "preload/heap/thread_heap.hpp"
#include "preload/kernel/pages.hpp"

namespace espalier::preload {
namespace {

using preload_thread_heap = heap_fixture;

TEST_F(preload_thread_heap, gives_every_size_and_alignment_what_it_asks_for) {
  for (std::size_t bytes = 0; bytes <= 2100; ++bytes) {
    void* const block = allocate(mine, bytes);
    ASSERT_EQ(address(block) % 16, 0U) << bytes;
    ASSERT_EQ(address(block) % (bytes > 48 ? 64 : 16), 0U) << bytes;
    ASSERT_GE(usable(block), bytes);
    ASSERT_EQ(usable(block), geometries[class_of(bytes)].stride);
  }
  for (std::size_t align = 1; align <= 65'536; align *= 2) {
    for (const std::size_t bytes : {0U, 1U, 17U, 40U, 64U, 100U, 1000U, 4096U, 30'000U, 32'832U, 40'000U}) {
      void* const block = mine.allocate_aligned(bytes, align);
      ASSERT_EQ(address(block) % std::max<std::size_t>(align, 16), 0U) << bytes;
      ASSERT_GE(usable(block), bytes) << bytes << " at " << align;
      std::memset(block, 1, usable(block));
      deallocate(mine, block);
    }
  }
}

/// 64k and 64k - 16 bytes, from 48 bytes to 4 KiB.
std::vector<std::size_t> sizes() {
  std::vector<std::size_t> all;
  for (std::size_t bytes = 64; bytes <= 4096; bytes += 64) {
    all.push_back(bytes - 16);
    all.push_back(bytes);
  }
  return all;
}

/// The most lines of a cache of 64 sets that blocks begin in: where two blocks share a line, it is one.
std::size_t most_at_one_index(const std::vector<void*>& blocks) {
  std::array<std::set<std::uintptr_t>, 64> lines;
  for (const void* const b : blocks) lines[address(b) >> 6U & 63U].insert(address(b) >> 6U);
  std::size_t most = 0;
  for (const auto& at : lines) most = std::max(most, at.size());
  return most;
}

struct bound {
  std::size_t blocks;
  std::size_t load;
};
constexpr std::array<bound, 3> bounds{{{128, 3}, {512, 9}, {640, 11}}};

TEST_F(preload_thread_heap, spreads_blocks_of_one_size_over_all_indices) {
  for (const std::size_t bytes : sizes()) {
    for (const auto& [n, load] : bounds) {
      // One that nobody has allocated from.
      thread_heap& fresh = *heaps.adopt();
      std::vector<void*> blocks(n);
      for (void*& b : blocks) b = allocate(fresh, bytes);
      EXPECT_LE(most_at_one_index(blocks), load) << n << " of " << bytes;
    }
  }
}

TEST_F(preload_thread_heap, spreads_blocks_of_two_sizes_that_alternate) {
  for (const std::size_t bytes : sizes()) {
    for (const std::size_t other : {64U, 96U, 240U, 256U, 1008U, 4096U}) {
      thread_heap& fresh = *heaps.adopt();
      std::vector<void*> blocks;
      while (blocks.size() < 512) {
        blocks.push_back(allocate(fresh, bytes));
        blocks.push_back(allocate(fresh, other));
      }
      // Each class has its share and one more at most.
      EXPECT_LE(most_at_one_index(blocks), 10U) << bytes << " and " << other;
    }
  }
}

TEST_F(preload_thread_heap, spreads_what_it_gives_out_again_in_order) {
  for (const std::size_t bytes : sizes()) {
    thread_heap& fresh = *heaps.adopt();
    std::vector<void*> blocks(2000);
    for (void*& b : blocks) b = allocate(fresh, bytes);
    for (void* const b : blocks) deallocate(fresh, b);
    blocks.resize(512);
    for (void*& b : blocks) b = allocate(fresh, bytes);
    EXPECT_LE(most_at_one_index(blocks), 9U) << bytes;
    // Nothing of it stays for the next size.
    for (void* const b : blocks) deallocate(fresh, b);
    fresh.free_empty_regions();
  }
}

TEST_F(preload_thread_heap, measures_a_load_that_can_be_too_high) {
  std::vector<void*> blocks;
  for (std::size_t i = 0; i < 128; ++i) blocks.push_back(reinterpret_cast<void*>(4096 * (i + 1)));
  EXPECT_EQ(most_at_one_index(blocks), 128U);
}

TEST_F(preload_thread_heap, gives_the_same_block_again_at_once) {
  for (const std::size_t bytes : {1U, 48U, 1024U, 1025U, 32'832U}) {
    void* const block = allocate(mine, bytes);
    deallocate(mine, block);
    EXPECT_EQ(mine.allocate_quickly(bytes), block) << bytes;
  }
}

TEST_F(preload_thread_heap, uses_up_a_region_before_it_takes_another) {
  for (const std::size_t bytes : {16U, 48U, 256U, 4096U, 32'832U}) {
    thread_heap& fresh = *heaps.adopt();
    const std::size_t before = heaps.count().regions;
    std::vector<void*> blocks;
    do {
      blocks.push_back(allocate(fresh, bytes));
    } while (heaps.count().regions == before + 1);
    // The 64 blocks of a period of even strides, and the colour, may be lost.
    EXPECT_GT((blocks.size() - 1) * geometries[class_of(bytes)].stride, region_bytes * 3 / 4) << bytes;
    for (void* const b : blocks) deallocate(fresh, b);
    EXPECT_EQ(heaps.count().regions, before + 1) << "the one that is current";
    fresh.free_empty_regions();
    EXPECT_EQ(heaps.count().regions, before);
  }
}

TEST_F(preload_thread_heap, finds_room_in_full_regions) {
  std::vector<void*> blocks;
  while (heaps.count().regions < 4) blocks.push_back(allocate(mine, 1000));
  // One block of each of the full ones.
  std::set<void*> freed;
  std::set<region*> regions;
  for (void* const b : blocks) {
    if (region_of(b)->state == region_state::full && regions.insert(region_of(b)).second) freed.insert(b);
  }
  ASSERT_EQ(freed.size(), 3U);
  for (void* const b : freed) deallocate(mine, b);
  // All that is left in the current one, and then these.
  std::set<void*> got;
  while (heaps.count().regions < 5) got.insert(allocate(mine, 1000));
  for (void* const b : freed) EXPECT_TRUE(got.contains(b));
}

TEST_F(preload_thread_heap, keeps_the_memory_of_empty_regions_as_told) {
  heaps.commons().spans.set_keep(2 * region_bytes);
  std::vector<void*> blocks;
  while (heaps.count().regions < 10) blocks.push_back(allocate(mine, 2000));
  for (void* const b : blocks) std::memset(b, 1, 2000);
  for (void* const b : blocks) deallocate(mine, b);
  EXPECT_EQ(heaps.count().regions, 1U);
  EXPECT_EQ(heaps.count().empty_bytes, 2 * region_bytes);
  EXPECT_TRUE(heaps.trim(&mine));
  EXPECT_EQ(heaps.count().regions, 0U);
  EXPECT_EQ(heaps.count().empty_bytes, 0U);
  EXPECT_FALSE(heaps.trim(&mine)) << "there is nothing left";
}

TEST_F(preload_thread_heap, is_as_it_was_where_memory_is_refused) {
  page_source& pages = heaps.commons().pages;
  // Of each class as much as one span has, then nothing.
  for (const std::size_t bytes : {40U, 3000U}) {
    std::vector<void*> blocks;
    const auto keep = [&](void* block) {
      std::memset(block, static_cast<int>(blocks.size() % 251), bytes);
      blocks.push_back(block);
    };
    keep(allocate(mine, bytes));
    pages.set_limit(pages.bytes());
    while (void* const block = allocate(mine, bytes)) keep(block);
    EXPECT_GT(blocks.size() * bytes, std::size_t{20} << 20U);
    EXPECT_EQ(mine.allocate_aligned(bytes, 4096), nullptr);
    EXPECT_EQ(mine.allocate_zeroed(bytes), nullptr);
    EXPECT_EQ(mine.allocate_zeroed(20'000), nullptr);
    EXPECT_EQ(mine.resize(blocks.front(), 32'000), nullptr);
    EXPECT_EQ(heaps.adopt(), nullptr) << "nor is there a heap";
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const auto* const at = static_cast<const unsigned char*>(blocks[i]);
      ASSERT_TRUE(at[0] == i % 251 && std::memcmp(at, at + 1, bytes - 1) == 0) << "its own, block " << i;
    }
    for (int i = 0; i < 100; ++i) {
      deallocate(mine, blocks[7]);
      EXPECT_EQ(allocate(mine, bytes), blocks[7]);
      EXPECT_EQ(allocate(mine, bytes), nullptr);
    }
    for (void* const b : blocks) deallocate(mine, b);
    EXPECT_EQ(heaps.count().used_blocks, 0U);
    pages.set_limit(std::numeric_limits<std::size_t>::max());
    mine.free_empty_regions();
  }
}

TEST_F(preload_thread_heap, has_its_runs_mapped_at_once_where_told) {
  heaps.commons().prefault = true;
  auto* const block = static_cast<unsigned char*>(mine.allocate_zeroed(48));
  EXPECT_TRUE(std::all_of(block, block + 48, [](unsigned char b) { return b == 0; }));
  // From the page of the first block to the end of the region.
  auto* const begin = reinterpret_cast<std::byte*>(address(block) & ~(page_bytes - 1));
  std::byte* const end = span::of(block)->memory(span::number_of(*region_of(block)) + 1);
  std::vector<unsigned char> there(static_cast<std::size_t>(end - begin) / page_bytes);
  ASSERT_GT(there.size(), 50U);
  ASSERT_EQ(mincore(begin, static_cast<std::size_t>(end - begin), there.data()), 0);
  EXPECT_TRUE(std::all_of(there.begin(), there.end(), [](unsigned char page) { return (page & 1U) != 0; }));
}

TEST_F(preload_thread_heap, leaves_alone_what_others_handed_out) {
  alignas(16) static char theirs[64] = "of another allocator";
  deallocate(mine, nullptr);
  deallocate(mine, theirs);
  EXPECT_EQ(usable(nullptr), 0U);
  EXPECT_EQ(usable(theirs), 0U);
  auto* const moved = static_cast<char*>(mine.resize(theirs, 40));
  EXPECT_STREQ(moved, "of another allocator");
  EXPECT_STREQ(theirs, "of another allocator");
  deallocate(mine, moved);
}

TEST_F(preload_thread_heap, moves_what_others_handed_out_though_it_may_end_where_nothing_is) {
  page_source pages;
  auto* const two = static_cast<std::byte*>(pages.map(2 * page_bytes, page_bytes));
  ASSERT_EQ(mprotect(two + page_bytes, page_bytes, PROT_NONE), 0);
  std::memset(two, 5, page_bytes);
  auto* const moved = static_cast<std::byte*>(mine.resize(two + page_bytes - 32, 8000));
  ASSERT_NE(moved, nullptr);
  EXPECT_EQ(moved[31], std::byte{5});
  pages.unmap(two, 2 * page_bytes);
}

TEST(block_geometry, finds_the_class_of_every_size) {
  for (std::size_t bytes = 0; bytes <= index_class::largest_bytes + 1; ++bytes)
    ASSERT_EQ(class_of(bytes), index_class::of(bytes, least_align)) << bytes;
  EXPECT_EQ(class_of(~std::size_t{0}), index_class::none);
}

TEST(block_geometry, gives_every_size_a_stride_that_holds_it_and_keeps_it_aligned) {
  for (std::size_t bytes = 0; bytes <= index_class::largest_bytes; ++bytes) {
    const std::size_t stride = geometries[class_of(bytes)].stride;
    ASSERT_GE(stride, bytes);
    ASSERT_EQ(stride % least_align, 0U) << bytes;
  }
}

TEST(block_geometry, divides_as_the_processor_does) {
  for (const std::size_t divisor : {1U, 3U, 16U, 48U, 192U, 4160U, 32'832U, 262'143U, 262'144U}) {
    const reciprocal by = reciprocal::of(divisor);
    for (std::size_t n = 0; n <= region_bytes; ++n)
      ASSERT_EQ(by.divide(n), n / divisor) << n << "/" << divisor;
  }
}

TEST(block_geometry, finds_the_beginning_of_every_block_from_every_offset) {
  for (std::size_t c = 0; c < index_class::count; ++c) {
    const index_class::shape shape = index_class::shape_of(c);
    const block_geometry& quick = geometries[c];
    for (std::size_t offset = 0; offset < region_bytes; offset += offset < 32'768 ? 1 : 61)
      ASSERT_EQ(quick.start_of(offset), shape.offset(shape.block_at(offset))) << offset << " of class " << c;
    for (std::size_t i = 0; shape.offset(i) < region_bytes; ++i)
      ASSERT_EQ(quick.start_of(shape.offset(i)), shape.offset(i)) << "block " << i << " of class " << c;
  }
}

}  // namespace
}  // namespace espalier::preload
