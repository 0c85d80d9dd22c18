// Threads that free blocks of others before they have allocated any, while operator new has no memory for them.
// Per-thread records come into being sixteen slots at a time, so those of the later threads are not there yet.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <thread>
#include <vector>

#include "espalier/hw/thread_slot.hpp"
#include "espalier/memory/any_placement.hpp"
#include "espalier/memory/parts/slab.hpp"
#include "espalier/sync/per_thread.hpp"
#include "memory/shipped_placements.hpp"
#include "support/allocation_failure.hpp"
#include "support/crowd.hpp"
#include "support/on_threads.hpp"
#include "support/sanitizers.hpp"

namespace espalier {
namespace {

/// Calls work(t) on each of n threads that are there at one time, one after the other, without memory.
template <class Work>
void in_turn_without_memory(int n, Work&& work) {
  test::on_threads_in_turn(
      n, [](int) {},
      [&](int t) {
        const test::refuse_memory refuse;
        work(t);
      });
}

constexpr int threads = 40;
// More than two batches of small blocks: some are handed on.
constexpr std::size_t each = test::thread_sanitizer ? 140 : 200;
constexpr std::size_t sizes[] = {16, 32, 40, 64, 200, 1024, 1500, 9000, 40000};

block request(std::size_t i) {
  return {sizes[i % std::size(sizes)], 8, static_cast<memory_role>(i % memory_role_count)};
}

template <placement Placement>
void threads_free_what_others_allocated(Placement& source) {
  std::uint64_t reserved = 0;
  for (int round = 0; round < 2; ++round) {
    std::vector<void*> blocks;
    for (std::size_t i = 0; i < threads * each; ++i) {
      blocks.push_back(source.allocate(request(i), i % 3 == 0 || blocks.empty() ? nullptr : blocks.back()));
      std::memset(blocks.back(), 1, request(i).bytes);
    }
    EXPECT_EQ(source.usage().blocks, blocks.size());
    reserved = std::max(reserved, source.usage().bytes_reserved);
    in_turn_without_memory(threads, [&](int t) {
      for (std::size_t i = 0; i < each; ++i) {
        const std::size_t n = static_cast<std::size_t>(t) * each + i;
        source.deallocate(blocks[n], request(n));
      }
    });
    EXPECT_EQ(source.usage().blocks, 0U);
    EXPECT_EQ(source.usage().bytes_in_use, 0U);
  }
  // The second round had the blocks of the first, but for what each thread keeps to itself.
  std::vector<void*> again;
  for (std::size_t i = 0; i < threads * each; ++i) again.push_back(source.allocate(request(i)));
  EXPECT_LE(source.usage().bytes_reserved, reserved + reserved / 2);
  for (std::size_t i = 0; i < again.size(); ++i) {
    std::memset(again[i], static_cast<int>(i % 251), request(i).bytes);
  }
  for (std::size_t i = 0; i < again.size(); ++i) {
    const auto* const bytes = static_cast<const unsigned char*>(again[i]);
    ASSERT_TRUE(bytes[0] == i % 251 && bytes[request(i).bytes - 1] == i % 251) << "block " << i;
    source.deallocate(again[i], request(i));
  }
  EXPECT_EQ(source.usage().blocks, 0U);
}

template <class Placement>
class short_of_memory : public testing::Test {};

TYPED_TEST_SUITE(short_of_memory, test::unnamed_placements);

TYPED_TEST(short_of_memory, threads_free_what_others_allocated) {
  TypeParam source;
  threads_free_what_others_allocated(source);
}

TEST(short_of_memory, every_placement_by_name) {
  for (const std::string_view name : placement_names()) {
    for (const auto keeps : {any_placement::recording::off, any_placement::recording::on}) {
      SCOPED_TRACE(name);
      any_placement source(name, keeps);
      threads_free_what_others_allocated(source);
    }
  }
}

/// What is freed for all becomes batches: a thread that has neither memory nor record leaves none of it behind.
TEST(short_of_memory, a_slab_hands_out_what_threads_without_a_record_freed) {
  slab source(64);
  std::vector<void*> blocks;
  for (std::size_t i = 0; i < 1000; ++i) blocks.push_back(source.allocate());
  const std::uint64_t reserved = source.usage().bytes_reserved;
  std::size_t freed = 0;
  constexpr std::uint32_t slots_together = 16;
  const std::uint32_t mine = hw::thread_slot() / slots_together;
  in_turn_without_memory(threads, [&](int) {
    if (hw::thread_slot() / slots_together == mine) return;  // its record came with main's
    for (int i = 0; i < 50 && freed != blocks.size(); ++i) source.deallocate(blocks[freed++]);
  });
  ASSERT_EQ(freed, blocks.size());
  EXPECT_EQ(source.usage().blocks, 0U);
  for (void*& one : blocks) one = source.allocate();
  EXPECT_EQ(source.usage().bytes_reserved, reserved) << "a block that was freed is not found again";
  for (void* one : blocks) source.deallocate(one);
  EXPECT_EQ(source.usage().blocks, 0U);
}

TEST(short_of_memory, a_counter_counts_on) {
  striped_counter sum;
  for (unsigned i = 0; i < striped_counter::first_additions; ++i) sum.add(0);
  sum.add(5);
  in_turn_without_memory(threads, [&](int) {
    sum.add(3);
    sum.add(-1);
  });
  EXPECT_EQ(sum.read(), 5 + 2 * threads);
}

TEST(short_of_memory, a_thread_for_which_there_is_no_slot_frees) {
  if (test::thread_sanitizer || test::address_sanitizer) GTEST_SKIP() << "too many threads for a sanitizer";
  clustered source;
  constexpr block router{32, 32, memory_role::node};
  std::vector<void*> blocks;
  for (std::size_t i = 0; i < 500; ++i) blocks.push_back(source.allocate(router));
  const test::crowd all(hw::max_thread_slots);
  if (all.size() < hw::max_thread_slots)
    GTEST_SKIP() << "this system allows only " << all.size() << " more threads";
  std::thread([&] {
    EXPECT_EQ(hw::try_thread_slot(), hw::max_thread_slots);
    for (void* one : blocks) source.deallocate(one, router);
  }).join();
  EXPECT_EQ(source.usage().blocks, 0U);
}

}  // namespace
}  // namespace espalier
