#include "preload/recording/thread_records.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <set>
#include <thread>
#include <vector>

#include "support/on_threads.hpp"

namespace espalier::preload {
namespace {

std::atomic<int> ended{0};
void on_end(void* record) {
  ++ended;
  thread_records::release(*static_cast<thread_record*>(record));
}

memory_budget budget;
// Records stay with the threads of this process until these end.
thread_records records(budget);

struct preload_thread_records : ::testing::Test {
  preload_thread_records() {
    static const bool started = records.start(on_end);
    if (!started) skip = true;
  }
  void SetUp() override {
    if (skip) GTEST_SKIP() << "the kernel has no barrier for all threads of a process";
  }
  bool skip = false;
};

TEST_F(preload_thread_records, are_none_before_the_start) {
  thread_records none(budget);
  EXPECT_EQ(none.acquire(), nullptr);
  none.freeze();
  none.thaw();
}

TEST_F(preload_thread_records, are_different_for_threads_of_one_time_and_come_back) {
  ended = 0;
  std::set<thread_record*> first;
  futex_lock lock;
  std::atomic<int> together{0};
  const auto one = [&](std::set<thread_record*>& to) {
    thread_record* const mine = records.acquire();
    ASSERT_NE(mine, nullptr);
    ++together;
    while (together < 4) std::this_thread::yield();
    const futex_guard guard(lock);
    to.insert(mine);
  };
  test::on_threads(4, [&](int) { one(first); });
  EXPECT_EQ(first.size(), 4U);
  EXPECT_EQ(ended, 4);
  const std::size_t mapped = budget.bytes();
  together = 0;
  std::set<thread_record*> second;
  test::on_threads(4, [&](int) { one(second); });
  EXPECT_EQ(second, first);
  EXPECT_EQ(budget.bytes(), mapped);
}

TEST_F(preload_thread_records, are_none_where_memory_is_refused) {
  memory_budget small(0);
  thread_records refused(small);
  ASSERT_TRUE(refused.start(on_end));
  EXPECT_EQ(refused.acquire(), nullptr);
}

TEST_F(preload_thread_records, keep_their_owners_out_while_frozen) {
  // Owners count twice at work. While they are kept out, both counts are the same and stay what they are.
  constexpr int owners = 3;
  struct counts {
    std::atomic<std::uint64_t> one{0};
    std::atomic<std::uint64_t> other{0};
  };
  std::vector<counts> of(owners);
  std::atomic<bool> stop{false};
  std::atomic<int> ready{0};
  std::thread keeper([&] {
    while (ready < owners) std::this_thread::yield();
    for (int round = 0; round < 300; ++round) {
      records.freeze();
      std::vector<std::uint64_t> seen;
      seen.reserve(of.size());
      for (const counts& c : of) seen.push_back(c.one.load(std::memory_order_relaxed));
      std::this_thread::yield();
      for (int t = 0; t < owners; ++t) {
        EXPECT_EQ(of[static_cast<std::size_t>(t)].one.load(std::memory_order_relaxed),
                  seen[static_cast<std::size_t>(t)]);
        EXPECT_EQ(of[static_cast<std::size_t>(t)].other.load(std::memory_order_relaxed),
                  seen[static_cast<std::size_t>(t)]);
      }
      records.thaw();
    }
    stop = true;
  });
  test::on_threads(owners, [&](int t) {
    thread_record* const mine = records.acquire();
    ASSERT_NE(mine, nullptr);
    counts& my = of[static_cast<std::size_t>(t)];
    ++ready;
    const auto count = [](std::atomic<std::uint64_t>& what) {
      what.store(what.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    };
    while (!stop.load(std::memory_order_relaxed)) {
      const thread_records::working at_work(records, *mine);
      count(my.one);
      count(my.other);
    }
  });
  keeper.join();
  for (const counts& c : of) EXPECT_GT(c.one.load(), 0U);
}

TEST_F(preload_thread_records, of_other_threads_have_no_owner_in_a_child) {
  thread_record* const mine = records.acquire();
  ASSERT_NE(mine, nullptr);
  std::atomic<bool> done{false};
  std::atomic<thread_record*> theirs{nullptr};
  std::thread other([&] {
    theirs = records.acquire();
    theirs.load()->busy.store(true);
    while (!done) std::this_thread::yield();
  });
  while (theirs == nullptr || !theirs.load()->busy) std::this_thread::yield();
  records.forget_other_threads(mine);
  EXPECT_FALSE(theirs.load()->busy) << "nobody is there to end its work";
  EXPECT_FALSE(theirs.load()->owned);
  EXPECT_TRUE(mine->owned);
  done = true;
  other.join();
}

}  // namespace
}  // namespace espalier::preload
