#include "preload/heap/thread_heaps.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <barrier>
#include <cerrno>
#include <cstddef>
#include <set>
#include <thread>
#include <vector>

#include "heap_fixture.hpp"
#include "support/on_threads.hpp"

namespace espalier::preload {
namespace {

using preload_thread_heaps = heap_fixture;

// What others give back.

TEST_F(preload_thread_heaps, finds_what_others_freed) {
  thread_heap& other = *heaps.adopt();
  for (const std::size_t bytes : {16U, 100U, 3000U, 32'000U}) {
    std::vector<void*> blocks;
    const std::size_t before = heaps.count().regions;
    while (heaps.count().regions < before + 4) blocks.push_back(allocate(mine, bytes));
    for (void* const b : blocks) deallocate(other, b);
    EXPECT_EQ(heaps.count().used_blocks, blocks.size()) << "the owner has not looked";
    // All blocks again, and no region more.
    std::set<void*> again;
    for (std::size_t i = 0; i < blocks.size(); ++i) again.insert(allocate(mine, bytes));
    EXPECT_EQ(again.size(), blocks.size());
    EXPECT_LE(heaps.count().regions, before + 4);
    for (void* const b : again) deallocate(mine, b);
    mine.free_empty_regions();
    EXPECT_EQ(heaps.count().used_blocks, 0U);
    EXPECT_EQ(heaps.count().regions, before);
  }
}

TEST(preload_remote_free_list, say_where_a_list_ends_and_how_long_it_is) {
  static_assert(remote_free_list(0).count() == 0 && !remote_free_list(0).notifies());
  static_assert(remote_free_list(remote_free_list::notify_bit).count() == 0 &&
                remote_free_list(1).notifies());
  // Those that are told of begin like those that are not, and need not be told of twice.
  EXPECT_EQ(remote_free_list(0).with(4096), remote_free_list(remote_free_list::notify_bit).with(4096));
  std::uint64_t word = remote_free_list::notify_bit;
  for (std::size_t offset = region_bytes; offset != 0; offset -= least_align) {
    word = remote_free_list(word).with(offset - least_align);
    const remote_free_list all(word);
    ASSERT_EQ(all.newest(), offset - least_align);
    ASSERT_EQ(all.oldest(), region_bytes - least_align);
    ASSERT_EQ(all.count(), (region_bytes - offset) / least_align + 1);
    ASSERT_FALSE(all.notifies());
  }
}

TEST_F(preload_thread_heaps, hands_out_what_others_freed_with_what_is_left) {
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
    deallocate(turn++ % 2 == 0 ? other : mine, b);
  }
  std::set<void*> again;
  while (heaps.count().regions < 4) again.insert(allocate(mine, 300));
  for (void* const b : freed) EXPECT_TRUE(again.contains(b));
}

TEST_F(preload_thread_heaps, abandons_full_regions_until_a_block_is_freed) {
  void* const block = one_of_each_full_region(mine, 1, 700).front();
  region& r = *region_of(block);
  EXPECT_EQ(r.state, region_state::full);
  EXPECT_EQ(r.owner, nullptr);
  EXPECT_FALSE(mine.deallocate_quickly(test_registry, block));
  deallocate(mine, block);
  EXPECT_EQ(r.owner, nullptr) << "the block is kept aside";
  mine.free_empty_regions();
  EXPECT_EQ(r.owner, &mine);
  EXPECT_EQ(r.state, region_state::with_room);
  EXPECT_EQ(heaps.count().regions, 2U);
}

TEST_F(preload_thread_heaps, caches_some_blocks_of_full_regions_and_hands_them_out_next) {
  struct expected {
    std::size_t bytes;
    std::size_t most;
  };
  for (const auto& [bytes, most] : {expected{48, 32}, {1000, 32}, {30'000, 2}}) {
    thread_heap& fresh = *heaps.adopt();
    const std::vector<void*> blocks = one_of_each_full_region(fresh, most + 1, bytes);
    const std::size_t used = heaps.count().used_blocks;
    const std::size_t used_bytes = heaps.count().used_bytes;
    for (std::size_t i = 0; i < most; ++i) deallocate(fresh, blocks[i]);
    EXPECT_EQ(fresh.count_cached().blocks, most) << bytes;
    EXPECT_EQ(heaps.count().used_blocks, used - most) << "they are not in use";
    EXPECT_EQ(heaps.count().used_bytes, used_bytes - most * geometries[class_of(bytes)].stride);
    // The current region is used up before.
    std::vector<void*> again;
    while (fresh.count_cached().blocks != 0) again.push_back(allocate(fresh, bytes));
    for (std::size_t i = 0; i < most; ++i) EXPECT_EQ(again[again.size() - 1 - i], blocks[i]);
    for (std::size_t i = 0; i < most; ++i) EXPECT_EQ(region_of(blocks[i])->owner, nullptr);
    for (void* const b : blocks) deallocate(fresh, b);
    EXPECT_EQ(fresh.count_cached().blocks, 0U) << "one more than is kept";
    for (void* const b : blocks) EXPECT_EQ(region_of(b)->owner, &fresh);
    heaps.leave(fresh);
    EXPECT_NE(heaps.adopt(), nullptr);
  }
}

TEST_F(preload_thread_heaps, loses_unattended_regions_to_a_thread_that_allocates_the_same) {
  heaps.commons().patience = 2;
  thread_heap& other = *heaps.adopt();
  for (const std::size_t bytes : {48U, 700U}) {
    const std::vector<void*> blocks = one_of_each_full_region(mine, 5, bytes);
    void* const own = allocate(other, bytes);
    for (void* const b : blocks) deallocate(other, b);
    EXPECT_EQ(region_of(blocks[0])->owner, nullptr) << "it is about to be told";
    EXPECT_EQ(region_of(blocks[1])->owner, nullptr);
    for (std::size_t i = 2; i < blocks.size(); ++i) {
      EXPECT_EQ(region_of(blocks[i])->owner, &other);
      EXPECT_EQ(region_of(blocks[i])->state, region_state::with_room);
    }
    // It looks, and is not passed over any more.
    mine.free_empty_regions();
    EXPECT_EQ(region_of(blocks[0])->owner, &mine);
    EXPECT_EQ(region_of(blocks[1])->owner, &mine);
    deallocate(other, own);
  }
}

TEST_F(preload_thread_heaps, keeps_what_it_looks_at) {
  heaps.commons().patience = 1;
  thread_heap& other = *heaps.adopt();
  const std::vector<void*> blocks = one_of_each_full_region(mine, 5, 700);
  static_cast<void>(allocate(other, 700));
  for (void* const b : blocks) {
    deallocate(other, b);
    mine.free_empty_regions();
    EXPECT_EQ(region_of(b)->owner, &mine);
  }
}

TEST_F(preload_thread_heaps, keeps_what_others_could_not_use) {
  heaps.commons().patience = 0;
  thread_heap& other = *heaps.adopt();
  const std::vector<void*> blocks = one_of_each_full_region(mine, 5, 700);
  // Of another class, and of this one for aligned blocks only.
  static_cast<void>(allocate(other, 800));
  static_cast<void>(other.allocate_aligned(600, 128));
  for (void* const b : blocks) deallocate(other, b);
  mine.free_empty_regions();
  for (void* const b : blocks) EXPECT_EQ(region_of(b)->owner, &mine);
}

TEST_F(preload_thread_heaps, loses_blocks_in_blocks_as_well) {
  heaps.commons().patience = 0;
  thread_heap& other = *heaps.adopt();
  std::vector<void*> blocks;
  while (heaps.count().regions < 3) blocks.push_back(mine.allocate_aligned(3000, 1024));
  std::vector<void*> others{other.allocate_aligned(3000, 1024)};
  region& r = *region_of(blocks.front());
  deallocate(other, blocks.front());
  EXPECT_EQ(r.owner, &other);
  EXPECT_EQ(r.quick_owner, nullptr);
  blocks.erase(blocks.begin());
  for (void* const b : blocks) deallocate(mine, b);
  deallocate(other, others.front());
  mine.free_empty_regions();
  other.free_empty_regions();
  EXPECT_EQ(heaps.count().used_blocks, 0U);
}

TEST_F(preload_thread_heaps, serves_a_thread_that_only_allocates_and_one_that_only_frees) {
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
        deallocate(other, block);
      }
    }
  });
  EXPECT_LE(heaps.count().regions, 4U) << "what the one gives back the other uses";
  mine.free_empty_regions();
  EXPECT_EQ(heaps.count().used_blocks, 0U);
}

// Heaps of threads that come and go.

TEST_F(preload_thread_heaps, goes_to_the_next_thread_with_what_is_in_it) {
  thread_heap* const first = heaps.adopt();
  void* const kept = allocate(*first, 100);
  void* const gone = allocate(*first, 5000);
  deallocate(*first, gone);
  heaps.leave(*first);
  EXPECT_EQ(heaps.count().regions, 1U) << "the one with the block that is left";
  // Nobody has the heap, and somebody gives back what is of it.
  deallocate(mine, kept);
  thread_heap* const second = heaps.adopt();
  EXPECT_EQ(second, first);
  EXPECT_EQ(heaps.count().heaps, 2U);
  second->free_empty_regions();
  EXPECT_EQ(heaps.count().regions, 0U);
  EXPECT_NE(heaps.adopt(), second);
}

TEST_F(preload_thread_heaps, is_one_of_as_many_as_there_are_threads_at_once) {
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
  for (void* const b : left) deallocate(mine, b);
  EXPECT_TRUE(heaps.trim(&mine)) << "of heaps without a thread too";
  EXPECT_EQ(heaps.count().regions, 0U);
}

TEST_F(preload_thread_heaps, is_taken_back_from_a_thread_that_ended_without_leaving_it) {
  // One after the other, so that each number may come again.
  for (int i = 0; i < 100; ++i) {
    test::on_threads(1, [&](int) {
      thread_heap* const lost = heaps.adopt();
      ASSERT_NE(lost, nullptr);
      deallocate(*lost, allocate(*lost, 100));
    });
  }
  EXPECT_LE(heaps.count().heaps, 24U);
}

TEST_F(preload_thread_heaps, stays_its_threads_while_that_exists) {
  constexpr int threads = 40;
  std::set<thread_heap*> owned;
  futex_lock lock;
  std::barrier together(threads);
  test::on_threads(threads, [&](int) {
    thread_heap* const h = heaps.adopt();
    {
      const futex_guard guard(lock);
      EXPECT_TRUE(owned.insert(h).second) << "a heap has two threads";
    }
    together.arrive_and_wait();
    heaps.leave(*h);
  });
  EXPECT_EQ(owned.size(), std::size_t{threads});
  EXPECT_EQ(heaps.count().heaps, std::size_t{threads} + 1);
}

TEST_F(preload_thread_heaps, of_another_process_is_not_taken_back) {
  thread_heap* const theirs = heaps.adopt();
  theirs->owned_by.process = 1;
  for (int i = 0; i < 60; ++i) {
    test::on_threads(1, [&](int) { EXPECT_NE(heaps.adopt(), theirs); });
  }
  EXPECT_LE(heaps.count().heaps, 26U);
}

TEST_F(preload_thread_heaps, is_shared_by_threads_that_have_none) {
  std::array<void*, 4> blocks{};
  test::on_threads(4, [&](int t) {
    for (int i = 0; i < 1000; ++i) {
      void* const block = heaps.with_shared([](thread_heap& h) { return allocate(h, 80); });
      ASSERT_NE(block, nullptr);
      if (i == 999) {
        blocks[static_cast<std::size_t>(t)] = block;
      } else if (i % 2 == 0) {
        heaps.with_shared([&](thread_heap& h) { deallocate(h, block); });
      } else {
        thread_heap none(heaps.commons());
        deallocate(none, block);
      }
    }
  });
  for (void* const b : blocks) deallocate(mine, b);
  EXPECT_TRUE(heaps.trim(&mine));
  EXPECT_EQ(heaps.count().regions, 0U);
}

TEST_F(preload_thread_heaps, of_a_thread_that_a_child_lacks_is_adopted) {
  thread_heap* const theirs = heaps.adopt();
  heaps.before_fork();
  heaps.after_fork_in_child(&mine);
  EXPECT_EQ(heaps.adopt(), theirs);
  EXPECT_NE(heaps.adopt(), &mine);
}

TEST_F(preload_thread_heaps, counts_soon_or_not_at_all) {
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
  deallocate(mine, block);
}

}  // namespace
}  // namespace espalier::preload
