#include "preload/heap/thread_heap.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "espalier/workload/random.hpp"
#include "heap_fixture.hpp"
#include "preload/kernel/page_bytes.hpp"
#include "support/on_threads.hpp"

namespace espalier::preload {
namespace {

using preload_thread_heap = heap_fixture;

/// Bytes whose contents are known, and which nobody else has.
struct known_blocks {
  struct held {
    std::size_t bytes;
    unsigned char mark;
  };
  std::map<std::uintptr_t, held> all;

  void add(void* block, std::size_t bytes, unsigned char mark) {
    const std::uintptr_t at = address(block);
    const auto after = all.lower_bound(at);
    if (after != all.end()) {
      ASSERT_LE(at + bytes, after->first) << "overlaps the block behind it";
    }
    if (after != all.begin()) {
      const auto before = std::prev(after);
      ASSERT_LE(before->first + before->second.bytes, at) << "overlaps the block before it";
    }
    std::memset(block, mark, bytes);
    all.emplace(at, held{bytes, mark});
  }
  void check(void* block, std::size_t bytes) const {
    const held& of = all.at(address(block));
    const auto* const at = static_cast<const unsigned char*>(block);
    for (std::size_t i = 0; i < std::min(bytes, of.bytes); ++i) ASSERT_EQ(at[i], of.mark) << "byte " << i;
  }
  void remove(void* block) {
    check(block, std::numeric_limits<std::size_t>::max());
    all.erase(address(block));
  }
};

TEST_F(preload_thread_heap, gives_disjoint_blocks_that_keep_their_contents) {
  workload::random_generator random{42};
  known_blocks known;
  std::vector<void*> blocks;
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  const auto some_size = [&] { return below(8) == 0 ? below(80'000) : below(std::size_t{16} << below(8)); };
  for (int step = 0; step < 30'000; ++step) {
    const auto mark = static_cast<unsigned char>(random());
    const std::size_t what = below(10);
    if (blocks.size() < 100 || (what < 4 && blocks.size() < 1500)) {
      const std::size_t bytes = some_size();
      std::size_t align = 16;
      void* block = nullptr;
      if (below(4) == 0) {
        align = std::size_t{8} << below(10);
        block = mine.allocate_aligned(bytes, align);
      } else if (below(4) == 0) {
        block = mine.allocate_zeroed(bytes);
        for (std::size_t i = 0; i < bytes; ++i) ASSERT_EQ(static_cast<char*>(block)[i], 0) << i;
      } else {
        block = allocate(mine, bytes);
      }
      ASSERT_NE(block, nullptr);
      ASSERT_EQ(address(block) % std::max<std::size_t>(align, 16), 0U);
      ASSERT_GE(usable(block), bytes);
      known.add(block, usable(block), mark);
      blocks.push_back(block);
    } else {
      const std::size_t chosen = below(blocks.size());
      void* const block = blocks[chosen];
      if (what < 8) {
        known.remove(block);
        give_back(mine, block);
        blocks[chosen] = blocks.back();
        blocks.pop_back();
      } else {
        const auto before = known.all.at(address(block));
        const std::size_t bytes = 1 + some_size();
        known.remove(block);
        void* const moved = mine.resize(block, bytes);
        ASSERT_NE(moved, nullptr);
        const auto* const at = static_cast<const unsigned char*>(moved);
        for (std::size_t i = 0; i < std::min(bytes, before.bytes); ++i) ASSERT_EQ(at[i], before.mark) << i;
        known.add(moved, usable(moved), mark);
        blocks[chosen] = moved;
      }
    }
    if (HasFatalFailure()) return;
  }
  EXPECT_EQ(heaps.count().used_blocks, blocks.size());
  for (void* const block : blocks) {
    known.remove(block);
    give_back(mine, block);
  }
  EXPECT_EQ(heaps.count().used_blocks, 0U);
  mine.give_back_empty();
  EXPECT_EQ(heaps.count().regions, 0U);
}

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
      give_back(mine, block);
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
    for (void* const b : blocks) give_back(fresh, b);
    blocks.resize(512);
    for (void*& b : blocks) b = allocate(fresh, bytes);
    EXPECT_LE(most_at_one_index(blocks), 9U) << bytes;
    // Nothing of it stays for the next size.
    for (void* const b : blocks) give_back(fresh, b);
    fresh.give_back_empty();
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
    give_back(mine, block);
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
    for (void* const b : blocks) give_back(fresh, b);
    EXPECT_EQ(heaps.count().regions, before + 1) << "the one that is current";
    fresh.give_back_empty();
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
  for (void* const b : freed) give_back(mine, b);
  // All that is left in the current one, and then these.
  std::set<void*> got;
  while (heaps.count().regions < 5) got.insert(allocate(mine, 1000));
  for (void* const b : freed) EXPECT_TRUE(got.contains(b));
}

TEST_F(preload_thread_heap, zeroes_what_was_used_and_only_that) {
  // Through more than a region, so that one is taken again that was used.
  for (const std::size_t bytes : {16U, 200U, 5000U, 32'000U}) {
    std::vector<unsigned char*> blocks;
    for (int round = 0; round < 3; ++round) {
      for (std::size_t i = 0; i < 2 * region_bytes / bytes; ++i) {
        auto* const block = static_cast<unsigned char*>(mine.allocate_zeroed(bytes));
        ASSERT_TRUE(std::all_of(block, block + bytes, [](unsigned char b) { return b == 0; }));
        std::memset(block, 0xff, usable(block));
        blocks.push_back(block);
      }
      for (unsigned char* const b : blocks) give_back(mine, b);
      blocks.clear();
    }
  }
  // A block that was zero when it was first handed out is not zero for ever.
  heaps.commons().spans.discard_empty();
  auto* const block = static_cast<unsigned char*>(allocate(*heaps.adopt(), 48));
  std::memset(block, 1, 48);
  thread_heap* const owner = region_of(block)->owner;
  give_back(*owner, block);
  EXPECT_EQ(owner->allocate_zeroed(48), block);
  EXPECT_EQ(block[40], 0);
}

TEST_F(preload_thread_heap, keeps_the_memory_of_empty_regions_as_told) {
  heaps.commons().spans.set_keep(2 * region_bytes);
  std::vector<void*> blocks;
  while (heaps.count().regions < 10) blocks.push_back(allocate(mine, 2000));
  for (void* const b : blocks) std::memset(b, 1, 2000);
  for (void* const b : blocks) give_back(mine, b);
  EXPECT_EQ(heaps.count().regions, 1U);
  EXPECT_EQ(heaps.count().empty_bytes, 2 * region_bytes);
  EXPECT_TRUE(heaps.trim(&mine));
  EXPECT_EQ(heaps.count().regions, 0U);
  EXPECT_EQ(heaps.count().empty_bytes, 0U);
  EXPECT_FALSE(heaps.trim(&mine)) << "there is nothing left";
}

TEST_F(preload_thread_heap, shares_regions_whose_memory_goes_when_they_are_idle) {
  span_pool& pool = heaps.commons().spans;
  // A period ends with every tick of the clock, in whichever thread is there first.
  pool.set_period(1);
  std::mutex lock;
  std::set<region*> all;
  std::size_t without_memory = 0;
  std::atomic<bool> ended{false};
  test::on_threads(4, [&](int t) {
    const std::byte mark{static_cast<unsigned char>(t + 1)};
    // One of them has many at once now and then; for some periods in between all have few.
    auto next_many = std::chrono::steady_clock::now();
    for (int times_many = 0; !ended;) {
      const bool many = t == 0 && std::chrono::steady_clock::now() >= next_many;
      if (many) {
        next_many = std::chrono::steady_clock::now() + std::chrono::milliseconds(40);
        ended = ++times_many == 5;
      }
      std::vector<region*> mine_now;
      for (int i = 0; i < (many ? 24 : 2); ++i) {
        bool zeroed = false;
        region* const r = pool.take(1, zeroed);
        ASSERT_NE(r, nullptr);
        std::byte* const first = span::of(r)->memory(span::number_of(*r));
        if (zeroed) {
          ASSERT_EQ(first[0], std::byte{0});
          ASSERT_EQ(first[region_bytes - 1], std::byte{0});
          const std::lock_guard guard(lock);
          all.insert(r);
          ++without_memory;
        }
        first[0] = first[region_bytes - 1] = mark;
        mine_now.push_back(r);
      }
      for (region* const r : mine_now) {
        const std::byte* const first = span::of(r)->memory(span::number_of(*r));
        ASSERT_EQ(first[0], mark) << "it was taken, and went";
        ASSERT_EQ(first[region_bytes - 1], mark);
        pool.give_back(*r, 1);
      }
    }
  });
  EXPECT_GT(without_memory, all.size()) << "none went";
  EXPECT_EQ(pool.count().free_regions, pool.count().spans * span_pool::most_regions);
}

TEST_F(preload_thread_heap, is_as_it_was_where_memory_is_refused) {
  page_source& pages = heaps.commons().pages;
  // Of each class as much as one span has, then nothing.
  for (const std::size_t bytes : {40U, 3000U}) {
    known_blocks known;
    std::vector<void*> blocks{allocate(mine, bytes)};
    known.add(blocks.back(), bytes, 1);
    pages.set_limit(pages.bytes());
    while (void* const block = allocate(mine, bytes)) {
      blocks.push_back(block);
      if (blocks.size() % 1000 == 0) known.add(block, bytes, 2);
    }
    EXPECT_GT(blocks.size() * bytes, std::size_t{20} << 20U);
    EXPECT_EQ(mine.allocate_aligned(bytes, 4096), nullptr);
    EXPECT_EQ(mine.allocate_zeroed(bytes), nullptr);
    EXPECT_EQ(mine.allocate_zeroed(20'000), nullptr);
    EXPECT_EQ(mine.resize(blocks.front(), 32'000), nullptr);
    EXPECT_EQ(heaps.adopt(), nullptr) << "nor is there a heap";
    known.check(blocks.front(), bytes);
    for (int i = 0; i < 100; ++i) {
      give_back(mine, blocks[7]);
      EXPECT_EQ(allocate(mine, bytes), blocks[7]);
      EXPECT_EQ(allocate(mine, bytes), nullptr);
    }
    for (void* const b : blocks) give_back(mine, b);
    EXPECT_EQ(heaps.count().used_blocks, 0U);
    pages.set_limit(std::numeric_limits<std::size_t>::max());
    mine.give_back_empty();
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
  give_back(mine, nullptr);
  give_back(mine, theirs);
  EXPECT_EQ(usable(nullptr), 0U);
  EXPECT_EQ(usable(theirs), 0U);
  auto* const moved = static_cast<char*>(mine.resize(theirs, 40));
  EXPECT_STREQ(moved, "of another allocator");
  EXPECT_STREQ(theirs, "of another allocator");
  give_back(mine, moved);
}

TEST_F(preload_thread_heap, moves_what_others_handed_out_though_it_may_end_where_nothing_is) {
  page_source pages;
  auto* const two = static_cast<std::byte*>(pages.reserve(2 * page_bytes, page_bytes));
  ASSERT_TRUE(pages.make_usable(two, page_bytes));
  std::memset(two, 5, page_bytes);
  auto* const moved = static_cast<std::byte*>(mine.resize(two + page_bytes - 32, 8000));
  ASSERT_NE(moved, nullptr);
  EXPECT_EQ(moved[31], std::byte{5});
  pages.unmap(two, 2 * page_bytes);
}

// What others give back.

TEST_F(preload_thread_heap, finds_what_others_gave_back) {
  thread_heap& other = *heaps.adopt();
  for (const std::size_t bytes : {16U, 100U, 3000U, 32'000U}) {
    std::vector<void*> blocks;
    const std::size_t before = heaps.count().regions;
    while (heaps.count().regions < before + 4) blocks.push_back(allocate(mine, bytes));
    for (void* const b : blocks) give_back(other, b);
    EXPECT_EQ(heaps.count().used_blocks, blocks.size()) << "the owner has not looked";
    // All blocks again, and no region more.
    std::set<void*> again;
    for (std::size_t i = 0; i < blocks.size(); ++i) again.insert(allocate(mine, bytes));
    EXPECT_EQ(again.size(), blocks.size());
    EXPECT_LE(heaps.count().regions, before + 4);
    for (void* const b : again) give_back(mine, b);
    mine.give_back_empty();
    EXPECT_EQ(heaps.count().used_blocks, 0U);
    EXPECT_EQ(heaps.count().regions, before);
  }
}

TEST(preload_pushed_blocks, say_where_a_list_ends_and_how_long_it_is) {
  static_assert(pushed_blocks(0).count() == 0 && !pushed_blocks(0).tells());
  static_assert(pushed_blocks(pushed_blocks::tell_bit).count() == 0 && pushed_blocks(1).tells());
  // Those that are told of begin like those that are not, and need not be told of twice.
  EXPECT_EQ(pushed_blocks(0).with(4096), pushed_blocks(pushed_blocks::tell_bit).with(4096));
  std::uint64_t word = pushed_blocks::tell_bit;
  for (std::size_t offset = region_bytes; offset != 0; offset -= least_align) {
    word = pushed_blocks(word).with(offset - least_align);
    const pushed_blocks all(word);
    ASSERT_EQ(all.newest(), offset - least_align);
    ASSERT_EQ(all.oldest(), region_bytes - least_align);
    ASSERT_EQ(all.count(), (region_bytes - offset) / least_align + 1);
    ASSERT_FALSE(all.tells());
  }
}

TEST_F(preload_thread_heap, gives_out_what_others_gave_back_with_what_is_left) {
  // The list of the others' blocks goes in front of one that is not empty.
  thread_heap& other = *heaps.adopt();
  std::vector<void*> blocks;
  while (heaps.count().regions < 3) blocks.push_back(allocate(mine, 300));
  std::set<void*> freed;
  region* const full = region_of(blocks.front());
  ASSERT_EQ(full->state, region_state::full);
  int turn = 0;
  for (void* const b : blocks) {
    if (region_of(b) != full || freed.size() == 40) continue;
    freed.insert(b);
    give_back(turn++ % 2 == 0 ? other : mine, b);
  }
  std::set<void*> again;
  while (heaps.count().regions < 4) again.insert(allocate(mine, 300));
  for (void* const b : freed) EXPECT_TRUE(again.contains(b));
}

TEST_F(preload_thread_heap, gives_regions_back_that_others_emptied) {
  thread_heap& other = *heaps.adopt();
  std::vector<void*> blocks;
  while (heaps.count().regions < 20) blocks.push_back(allocate(mine, 500));
  for (void* const b : blocks) give_back(other, b);
  mine.give_back_empty();
  EXPECT_EQ(heaps.count().regions, 0U);
}

TEST_F(preload_thread_heap, is_told_of_a_region_once_at_a_time) {
  thread_heap& other = *heaps.adopt();
  // Blocks of full regions, given back in turn by the owner and by another, with looks between.
  std::vector<void*> blocks;
  while (heaps.count().regions < 6) blocks.push_back(allocate(mine, 700));
  workload::random_generator random{7};
  for (int round = 0; round < 20'000; ++round) {
    void*& b = blocks[random() % blocks.size()];
    give_back(random() % 2 == 0 ? mine : other, b);
    if (random() % 64 == 0) mine.give_back_empty();
    b = allocate(mine, 700);
    ASSERT_NE(b, nullptr);
  }
  EXPECT_LE(heaps.count().regions, 8U) << "what others give back is used again";
  std::sort(blocks.begin(), blocks.end());
  EXPECT_EQ(std::adjacent_find(blocks.begin(), blocks.end()), blocks.end());
  for (void* const b : blocks) give_back(other, b);
  mine.give_back_empty();
  EXPECT_EQ(heaps.count().regions, 0U);
}

TEST_F(preload_thread_heap, takes_back_blocks_in_blocks_from_anybody) {
  thread_heap& other = *heaps.adopt();
  std::vector<void*> blocks;
  for (int i = 0; i < 300; ++i) {
    blocks.push_back(mine.allocate_aligned(3000, 1024));
    ASSERT_EQ(address(blocks.back()) % 1024, 0U);
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) give_back(i % 2 == 0 ? mine : other, blocks[i]);
  mine.give_back_empty();
  EXPECT_EQ(heaps.count().used_blocks, 0U);
  EXPECT_EQ(heaps.count().regions, 0U);
}

/// So many full regions of one heap: a block of each.
std::vector<void*> one_of_each_full_region(thread_heaps& heaps, thread_heap& from, std::size_t regions,
                                           std::size_t bytes) {
  std::vector<void*> first;
  region* last = nullptr;
  const std::size_t before = heaps.count().regions;
  while (heaps.count().regions <= before + regions) {
    void* const block = heap_fixture::allocate(from, bytes);
    if (region_of(block) != last) first.push_back(block);
    last = region_of(block);
  }
  first.resize(regions);
  return first;
}

TEST_F(preload_thread_heap, has_full_regions_that_are_nobodys_until_a_block_comes_back) {
  void* const block = one_of_each_full_region(heaps, mine, 1, 700).front();
  region& r = *region_of(block);
  EXPECT_EQ(r.state, region_state::full);
  EXPECT_EQ(r.owner, nullptr);
  EXPECT_FALSE(mine.deallocate_quickly(test_registry, block));
  give_back(mine, block);
  EXPECT_EQ(r.owner, nullptr) << "the block is kept aside";
  mine.give_back_empty();
  EXPECT_EQ(r.owner, &mine);
  EXPECT_EQ(r.state, region_state::with_room);
  EXPECT_EQ(heaps.count().regions, 2U);
}

TEST_F(preload_thread_heap, keeps_some_blocks_of_full_regions_aside_and_hands_them_out_next) {
  struct expected {
    std::size_t bytes;
    std::size_t most;
  };
  for (const auto& [bytes, most] : {expected{48, 32}, {1000, 32}, {30'000, 2}}) {
    thread_heap& fresh = *heaps.adopt();
    const std::vector<void*> blocks = one_of_each_full_region(heaps, fresh, most + 1, bytes);
    const std::size_t used = heaps.count().used_blocks;
    const std::size_t used_bytes = heaps.count().used_bytes;
    for (std::size_t i = 0; i < most; ++i) give_back(fresh, blocks[i]);
    EXPECT_EQ(fresh.count_aside().blocks, most) << bytes;
    EXPECT_EQ(heaps.count().used_blocks, used - most) << "they are not in use";
    EXPECT_EQ(heaps.count().used_bytes, used_bytes - most * geometries[class_of(bytes)].stride);
    // The current region is used up before.
    std::vector<void*> again;
    while (fresh.count_aside().blocks != 0) again.push_back(allocate(fresh, bytes));
    for (std::size_t i = 0; i < most; ++i) EXPECT_EQ(again[again.size() - 1 - i], blocks[i]);
    for (std::size_t i = 0; i < most; ++i) EXPECT_EQ(region_of(blocks[i])->owner, nullptr);
    for (void* const b : blocks) give_back(fresh, b);
    EXPECT_EQ(fresh.count_aside().blocks, 0U) << "one more than is kept";
    for (void* const b : blocks) EXPECT_EQ(region_of(b)->owner, &fresh);
    heaps.leave(fresh);
    EXPECT_NE(heaps.adopt(), nullptr);
  }
}

TEST_F(preload_thread_heap, loses_what_it_does_not_look_at_to_who_allocates_the_same) {
  heaps.commons().patience = 2;
  thread_heap& other = *heaps.adopt();
  for (const std::size_t bytes : {48U, 700U}) {
    const std::vector<void*> blocks = one_of_each_full_region(heaps, mine, 5, bytes);
    void* const own = allocate(other, bytes);
    for (void* const b : blocks) give_back(other, b);
    EXPECT_EQ(region_of(blocks[0])->owner, nullptr) << "it is about to be told";
    EXPECT_EQ(region_of(blocks[1])->owner, nullptr);
    for (std::size_t i = 2; i < blocks.size(); ++i) {
      EXPECT_EQ(region_of(blocks[i])->owner, &other);
      EXPECT_EQ(region_of(blocks[i])->state, region_state::with_room);
    }
    // It looks, and is not passed over any more.
    mine.give_back_empty();
    EXPECT_EQ(region_of(blocks[0])->owner, &mine);
    EXPECT_EQ(region_of(blocks[1])->owner, &mine);
    give_back(other, own);
  }
}

TEST_F(preload_thread_heap, keeps_what_it_looks_at) {
  heaps.commons().patience = 1;
  thread_heap& other = *heaps.adopt();
  const std::vector<void*> blocks = one_of_each_full_region(heaps, mine, 5, 700);
  static_cast<void>(allocate(other, 700));
  for (void* const b : blocks) {
    give_back(other, b);
    mine.give_back_empty();
    EXPECT_EQ(region_of(b)->owner, &mine);
  }
}

TEST_F(preload_thread_heap, keeps_what_others_could_not_use) {
  heaps.commons().patience = 0;
  thread_heap& other = *heaps.adopt();
  const std::vector<void*> blocks = one_of_each_full_region(heaps, mine, 5, 700);
  // Of another class, and of this one for aligned blocks only.
  static_cast<void>(allocate(other, 800));
  static_cast<void>(other.allocate_aligned(600, 128));
  for (void* const b : blocks) give_back(other, b);
  mine.give_back_empty();
  for (void* const b : blocks) EXPECT_EQ(region_of(b)->owner, &mine);
}

TEST_F(preload_thread_heap, loses_blocks_in_blocks_as_well) {
  heaps.commons().patience = 0;
  thread_heap& other = *heaps.adopt();
  std::vector<void*> blocks;
  while (heaps.count().regions < 3) blocks.push_back(mine.allocate_aligned(3000, 1024));
  std::vector<void*> others{other.allocate_aligned(3000, 1024)};
  region& r = *region_of(blocks.front());
  give_back(other, blocks.front());
  EXPECT_EQ(r.owner, &other);
  EXPECT_EQ(r.quick_owner, nullptr);
  blocks.erase(blocks.begin());
  for (void* const b : blocks) give_back(mine, b);
  give_back(other, others.front());
  mine.give_back_empty();
  other.give_back_empty();
  EXPECT_EQ(heaps.count().used_blocks, 0U);
}

TEST_F(preload_thread_heap, serves_threads_with_what_another_has_filled) {
  constexpr int threads = 3;
  constexpr std::size_t bytes = 1000;
  std::array<std::atomic<void*>, 10'000> table{};
  std::array<thread_heap*, threads> of{};
  for (thread_heap*& h : of) h = heaps.adopt();
  const auto marked = [](void* block) {
    std::memset(block, static_cast<int>(address(block) >> 4U & 127U), bytes);
    return block;
  };
  const auto check = [](void* block) {
    const auto* const at = static_cast<const unsigned char*>(block);
    ASSERT_TRUE(
        std::all_of(at, at + bytes, [&](unsigned char b) { return b == (address(block) >> 4U & 127U); }));
  };
  for (auto& place : table) place = marked(allocate(mine, bytes));
  test::on_threads(threads, [&](int t) {
    thread_heap& heap = *of[static_cast<std::size_t>(t)];
    workload::random_generator random{static_cast<std::uint64_t>(t)};
    for (std::size_t i = 0; i < 3 * table.size(); ++i) {
      void* const gone = table[random() % table.size()].exchange(nullptr);
      if (gone != nullptr) {
        check(gone);
        give_back(heap, gone);
      }
      std::atomic<void*>& place = table[random() % table.size()];
      if (place.load() == nullptr) {
        if (void* const before = place.exchange(marked(allocate(heap, bytes)))) give_back(heap, before);
      }
    }
  });
  for (auto& place : table) {
    if (place != nullptr) give_back(mine, place);
  }
  for (thread_heap* const h : of) heaps.leave(*h);
  heaps.trim(&mine);
  EXPECT_EQ(heaps.count().used_blocks, 0U);
  EXPECT_EQ(heaps.count().regions, 0U);
}

TEST_F(preload_thread_heap, serves_threads_that_give_back_each_others_blocks) {
  constexpr int threads = 4;
  constexpr std::size_t places = 64;
  std::array<std::array<std::atomic<void*>, places>, threads> mailboxes{};
  std::array<thread_heap*, threads> of{};
  for (thread_heap*& h : of) h = heaps.adopt();
  test::on_threads(threads, [&](int t) {
    const auto me = static_cast<std::size_t>(t);
    workload::random_generator random{static_cast<std::uint64_t>(t)};
    for (int i = 0; i < 20'000; ++i) {
      const std::size_t bytes = 16 + random() % 400;
      auto* const block = static_cast<unsigned char*>(allocate(*of[me], bytes));
      ASSERT_NE(block, nullptr);
      std::memset(block, static_cast<int>(bytes & 127U), bytes);
      std::memcpy(block, &bytes, sizeof bytes);
      void* const got = mailboxes[random() % threads][random() % places].exchange(block);
      if (got == nullptr) continue;
      std::size_t theirs = 0;
      std::memcpy(&theirs, got, sizeof theirs);
      for (std::size_t at = sizeof theirs; at < theirs; ++at)
        ASSERT_EQ(static_cast<unsigned char*>(got)[at], theirs & 127U);
      give_back(*of[me], got);
    }
  });
  for (auto& box : mailboxes) {
    for (auto& place : box) {
      if (place != nullptr) give_back(mine, place);
    }
  }
  for (thread_heap* const h : of) {
    h->give_back_empty();
    heaps.leave(*h);
  }
  EXPECT_EQ(heaps.count().used_blocks, 0U);
  EXPECT_EQ(heaps.count().regions, 0U);
  EXPECT_EQ(heaps.count().heaps, threads + 1U);
}

TEST_F(preload_thread_heap, serves_a_thread_that_only_allocates_and_one_that_only_gives_back) {
  constexpr std::size_t places = 128;
  std::array<std::atomic<void*>, places> ring{};
  constexpr std::size_t all = 100'000;
  thread_heap& other = *heaps.adopt();
  test::on_threads(2, [&](int t) {
    for (std::size_t i = 0; i < all; ++i) {
      std::atomic<void*>& place = ring[i % places];
      if (t == 0) {
        void* const block = allocate(mine, 300);
        while (place.load() != nullptr) std::this_thread::yield();
        place.store(block);
      } else {
        void* block = nullptr;
        while ((block = place.exchange(nullptr)) == nullptr) std::this_thread::yield();
        give_back(other, block);
      }
    }
  });
  EXPECT_LE(heaps.count().regions, 4U) << "what the one gives back the other uses";
  mine.give_back_empty();
  EXPECT_EQ(heaps.count().used_blocks, 0U);
}

// Heaps of threads that come and go.

TEST_F(preload_thread_heap, goes_to_the_next_thread_with_what_is_in_it) {
  thread_heap* const first = heaps.adopt();
  void* const kept = allocate(*first, 100);
  void* const gone = allocate(*first, 5000);
  give_back(*first, gone);
  heaps.leave(*first);
  EXPECT_EQ(heaps.count().regions, 1U) << "the one with the block that is left";
  // Nobody has the heap, and somebody gives back what is of it.
  give_back(mine, kept);
  thread_heap* const second = heaps.adopt();
  EXPECT_EQ(second, first);
  EXPECT_EQ(heaps.count().heaps, 2U);
  second->give_back_empty();
  EXPECT_EQ(heaps.count().regions, 0U);
  EXPECT_NE(heaps.adopt(), second);
}

TEST_F(preload_thread_heap, is_one_of_as_many_as_there_are_threads_at_once) {
  std::vector<void*> left;
  futex_lock lock;
  for (int generation = 0; generation < 5; ++generation) {
    std::barrier together(4);
    test::on_threads(4, [&](int) {
      thread_heap* const h = heaps.adopt();
      together.arrive_and_wait();
      for (int i = 0; i < 1000; ++i) {
        void* const block = allocate(*h, 64);
        const futex_guard guard(lock);
        left.push_back(block);
      }
      heaps.leave(*h);
    });
  }
  EXPECT_EQ(heaps.count().heaps, 5U);
  EXPECT_EQ(heaps.count().used_blocks, left.size());
  for (void* const b : left) give_back(mine, b);
  EXPECT_TRUE(heaps.trim(&mine)) << "of heaps without a thread too";
  EXPECT_EQ(heaps.count().regions, 0U);
}

TEST_F(preload_thread_heap, is_shared_by_threads_that_have_none) {
  std::array<void*, 4> blocks{};
  test::on_threads(4, [&](int t) {
    for (int i = 0; i < 1000; ++i) {
      void* const block = heaps.with_shared([](thread_heap& h) { return allocate(h, 80); });
      ASSERT_NE(block, nullptr);
      if (i == 999) {
        blocks[static_cast<std::size_t>(t)] = block;
      } else if (i % 2 == 0) {
        heaps.with_shared([&](thread_heap& h) { give_back(h, block); });
      } else {
        thread_heap none(heaps.commons());
        give_back(none, block);
      }
    }
  });
  for (void* const b : blocks) give_back(mine, b);
  EXPECT_TRUE(heaps.trim(&mine));
  EXPECT_EQ(heaps.count().regions, 0U);
}

TEST_F(preload_thread_heap, of_a_thread_that_a_child_lacks_is_adopted) {
  thread_heap* const theirs = heaps.adopt();
  heaps.before_fork();
  heaps.after_fork_in_child(&mine);
  EXPECT_EQ(heaps.adopt(), theirs);
  EXPECT_NE(heaps.adopt(), &mine);
}

TEST_F(preload_thread_heap, counts_soon_or_not_at_all) {
  void* const block = allocate(mine, 300'000);
  thread_heaps::figures all;
  heaps.before_fork();
  errno = 4321;
  EXPECT_FALSE(heaps.count_soon(all)) << "all locks are held";
  heaps.after_fork_in_parent();
  heaps.commons().spans.lock().lock();
  EXPECT_FALSE(heaps.count_soon(all)) << "one of them is";
  heaps.commons().spans.lock().unlock();
  EXPECT_EQ(errno, 4321);
  EXPECT_EQ(all.heaps, 0U);
  ASSERT_TRUE(heaps.count_soon(all)) << "none is left locked";
  EXPECT_EQ(all.heaps, 1U);
  EXPECT_EQ(all.large_blocks, 1U);
  EXPECT_EQ(all.used_bytes, heaps.count().used_bytes);
  give_back(mine, block);
}

// What is no block.

using preload_thread_heap_death = heap_fixture;

TEST_F(preload_thread_heap_death, of_a_pointer_into_a_block) {
  auto* const block = static_cast<std::byte*>(allocate(mine, 100));
  EXPECT_DEATH(heaps.adopt()->deallocate(block + 16), "espalier: free\\(\\): invalid pointer 0x[0-9a-f]+\n");
  EXPECT_DEATH(mine.deallocate(block + 16), "invalid pointer");
  EXPECT_DEATH(static_cast<void>(usable(block + 32)), "invalid pointer");
  EXPECT_DEATH(static_cast<void>(mine.resize(block + 32, 1000)), "invalid pointer");
}

TEST_F(preload_thread_heap_death, of_a_block_that_was_never_handed_out) {
  auto* const block = static_cast<std::byte*>(allocate(mine, 64));
  EXPECT_DEATH(mine.deallocate(block + 64), "given back twice, or never handed out: 0x");
  EXPECT_DEATH(mine.deallocate(block - 64), "invalid pointer");
  EXPECT_DEATH(mine.deallocate(span::of(block)), "never handed out");
  auto* const aligned = static_cast<std::byte*>(mine.allocate_aligned(500, 128));
  EXPECT_DEATH(mine.deallocate(region_of(aligned)->first - 16), "invalid pointer");
}

TEST_F(preload_thread_heap_death, of_a_block_of_a_full_region_that_was_never_handed_out) {
  auto* const block = static_cast<std::byte*>(one_of_each_full_region(heaps, mine, 1, 5000).front());
  region& r = *region_of(block);
  // Too little for a block is left behind the last one.
  ASSERT_GT(span::of(block)->memory(span::number_of(r) + 1) - r.fresh, least_align);
  EXPECT_DEATH(mine.deallocate(r.fresh), "given back twice, or never handed out: 0x");
}

TEST_F(preload_thread_heap_death, of_a_block_twice_among_those_kept_aside) {
  const std::vector<void*> blocks = one_of_each_full_region(heaps, mine, 2, 700);
  EXPECT_DEATH(
      {
        for (const std::size_t i : {0U, 1U, 0U}) give_back(mine, blocks[i]);
        mine.give_back_empty();
      },
      "given back twice")
      << "when they go back to their regions";
}

TEST_F(preload_thread_heap_death, of_a_block_twice_running) {
  for (const std::size_t bytes : {16U, 700U, 5000U}) {
    std::array<void*, 5> blocks{};
    for (void*& b : blocks) b = allocate(mine, bytes);
    give_back(mine, blocks[3]);
    EXPECT_DEATH(
        {
          give_back(mine, blocks[1]);
          give_back(mine, blocks[1]);
        },
        "given back twice, or never handed out: 0x");
    // In a region that has nothing else to give out.
    std::vector<void*> more;
    do {
      more.push_back(allocate(mine, bytes));
    } while (region_of(more.back()) == region_of(blocks[0]));
    EXPECT_DEATH(
        {
          give_back(mine, blocks[1]);
          give_back(mine, blocks[1]);
        },
        "given back twice");
    give_back(mine, blocks[1]);
    EXPECT_DEATH(mine.deallocate(blocks[1]), "given back twice") << "by the longer path";
  }
  std::array<void*, 2> aligned{};
  for (void*& b : aligned) b = mine.allocate_aligned(700, 256);
  EXPECT_DEATH(
      {
        give_back(mine, aligned[0]);
        give_back(mine, aligned[0]);
      },
      "given back twice");
}

TEST_F(preload_thread_heap, takes_blocks_back_again_that_it_handed_out_again) {
  std::array<void*, 3> blocks{};
  for (void*& b : blocks) b = allocate(mine, 700);
  for (int i = 0; i < 3; ++i) {
    give_back(mine, blocks[0]);
    EXPECT_EQ(allocate(mine, 700), blocks[0]);
    // The last of a list that was, in an empty one.
    give_back(mine, blocks[0]);
    give_back(mine, blocks[1]);
    EXPECT_EQ(allocate(mine, 700), blocks[1]);
    EXPECT_EQ(allocate(mine, 700), blocks[0]);
  }
  for (void* const b : blocks) give_back(mine, b);
  mine.give_back_empty();
  EXPECT_EQ(heaps.count().regions, 0U);
}

TEST_F(preload_thread_heap, knows_addresses_that_nobody_gives_unasked) {
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
  give_back(mine, at(~std::uintptr_t{0}));
  give_back(mine, at(above | std::uintptr_t{1} << 20U));
  give_back(mine, block);
}

TEST_F(preload_thread_heap_death, of_blocks_of_which_more_come_back_than_were_handed_out) {
  void* const only = allocate(mine, 700);
  EXPECT_DEATH(
      {
        give_back(mine, only);
        give_back(mine, only);
      },
      "given back twice");
  void* const aligned = mine.allocate_aligned(700, 256);
  EXPECT_DEATH(
      {
        give_back(mine, aligned);
        give_back(mine, aligned);
      },
      "given back twice");
  // The last two of a region that is not current.
  std::vector<void*> blocks;
  while (heaps.count().regions < 4) blocks.push_back(allocate(mine, 20'000));
  const auto in_first = [&](const void* b) { return region_of(b) == region_of(blocks.front()); };
  const auto last_two = std::find_if_not(blocks.begin(), blocks.end(), in_first) - 2;
  for (auto b = blocks.begin(); b != last_two; ++b) give_back(mine, *b);
  EXPECT_DEATH(
      {
        give_back(mine, *last_two);
        give_back(mine, *last_two);
      },
      "given back twice");
}

TEST_F(preload_thread_heap_death, of_anothers_block_twice) {
  thread_heap& other = *heaps.adopt();
  std::array<void*, 3> blocks{};
  for (void*& b : blocks) b = allocate(mine, 700);
  EXPECT_DEATH(
      {
        give_back(other, blocks[0]);
        give_back(other, blocks[0]);
      },
      "given back twice");
  EXPECT_DEATH(
      {
        for (const int i : {0, 1, 2, 0}) give_back(other, blocks[static_cast<std::size_t>(i)]);
        mine.give_back_empty();
      },
      "given back twice")
      << "more than were handed out";
}

TEST_F(preload_thread_heap_death, of_a_large_block_twice_or_in_its_middle) {
  auto* const block = static_cast<std::byte*>(allocate(mine, 600'000));
  EXPECT_DEATH(mine.deallocate(block + 64), "invalid pointer");
  EXPECT_DEATH(mine.deallocate(block + 300'000), "never handed out");
  give_back(mine, block);
  EXPECT_DEATH(mine.deallocate(block), "given back twice");
  auto* const huge = static_cast<std::byte*>(allocate(mine, std::size_t{20} << 20U));
  EXPECT_DEATH(mine.deallocate(huge + 64), "invalid pointer");
  EXPECT_DEATH(mine.deallocate(huge + 100'001), "invalid pointer");
  give_back(mine, huge);
}

}  // namespace
}  // namespace espalier::preload
