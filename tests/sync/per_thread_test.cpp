// Storage and sums of which each thread has a part.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "espalier/hw/cache_line.hpp"
#include "espalier/hw/thread_slot.hpp"
#include "espalier/sync/per_thread.hpp"
#include "support/on_threads.hpp"

namespace espalier {
namespace {

TEST(per_thread, each_live_thread_has_an_element_of_its_own) {
  per_thread<std::atomic<int>> all;
  constexpr int threads = 20;  // more than come into being at once
  std::barrier together(threads);
  std::mutex lock;
  std::set<std::uintptr_t> addresses;
  test::on_threads(threads, [&](int) {
    std::atomic<int>& mine = all.local();
    mine.fetch_add(1);
    EXPECT_EQ(&mine, &all.local());
    EXPECT_EQ(&mine, all.at(hw::thread_slot()));
    {
      const std::lock_guard hold(lock);
      addresses.insert(reinterpret_cast<std::uintptr_t>(&mine));
    }
    together.arrive_and_wait();
    EXPECT_EQ(mine.load(), 1);
  });
  ASSERT_EQ(addresses.size(), static_cast<std::size_t>(threads));
  std::uintptr_t before = 0;
  for (const std::uintptr_t a : addresses) {
    EXPECT_GE(a - before, hw::false_sharing_bytes);
    EXPECT_EQ(a % hw::false_sharing_bytes, 0U);
    before = a;
  }
  int sum = 0;
  std::vector<std::uint32_t> slots;
  all.for_each([&](std::uint32_t slot, const std::atomic<int>& element) {
    EXPECT_EQ(&element, all.at(slot));
    slots.push_back(slot);
    sum += element.load();
  });
  EXPECT_EQ(sum, threads) << "what ended threads leave behind is found";
  EXPECT_EQ(slots.size(), std::set<std::uint32_t>(slots.begin(), slots.end()).size());
  EXPECT_TRUE(std::is_sorted(slots.begin(), slots.end()));
}

TEST(per_thread, an_element_passes_to_the_next_thread_with_the_slot) {
  per_thread<int> all;
  std::vector<std::uint32_t> slots;
  for (int i = 0; i < 3; ++i) {
    std::thread([&] {
      slots.push_back(hw::thread_slot());
      EXPECT_EQ(all.local()++, i);
    }).join();
  }
  EXPECT_EQ(slots[0], slots[1]);
  EXPECT_EQ(slots[0], slots[2]);
}

TEST(per_thread, elements_begin_value_initialised_and_no_sooner_than_asked_for) {
  per_thread<int> all;
  const std::uint32_t mine = hw::thread_slot();
  EXPECT_EQ(all.at(mine), nullptr);
  std::size_t visits = 0;
  all.for_each([&](std::uint32_t, int) { ++visits; });
  EXPECT_EQ(visits, 0U);
  EXPECT_EQ(all.local(), 0);
  all.local() = 5;
  ASSERT_NE(all.at(mine), nullptr);
  EXPECT_EQ(*all.at(mine), 5);
  EXPECT_EQ(all.at(hw::max_thread_slots - 1), nullptr);
}

struct counted {
  static inline std::atomic<int> alive{0};
  counted() { ++alive; }
  ~counted() { --alive; }
  counted(const counted&) = delete;
  counted& operator=(const counted&) = delete;
};

TEST(per_thread, destroys_what_it_made) {
  {
    per_thread<counted> all;
    (void)all.local();
    std::thread([&] { (void)all.local(); }).join();
    EXPECT_EQ(counted::alive.load(), 2)
        << "a thread has one element, and no thread one that it did not ask for";
  }
  EXPECT_EQ(counted::alive.load(), 0);
}

TEST(striped_counter, adds_up_over_threads_that_run_and_threads_that_ended) {
  striped_counter sum;
  EXPECT_EQ(sum.read(), 0);
  for (int generation = 1; generation <= 3; ++generation) {
    test::on_threads(4, [&](int) {
      for (int i = 0; i < 1000; ++i) sum.add(3);
    });
    EXPECT_EQ(sum.read(), generation * 4 * 1000 * 3);
  }
}

TEST(striped_counter, counters_are_independent_and_may_fall) {
  striped_counter a;
  striped_counter b;
  a.add(1);
  EXPECT_EQ(b.read(), 0);
  std::thread([&] { a.add(-3); }).join();
  EXPECT_EQ(a.read(), -2) << "a thread may take away what another added";
}

}  // namespace
}  // namespace espalier
