#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <thread>
#include <vector>

#include "espalier/hw/pause.hpp"
#include "espalier/sync/backoff.hpp"
#include "espalier/sync/lock_concept.hpp"
#include "espalier/sync/mcs_lock.hpp"
#include "espalier/sync/ticket_lock.hpp"

// This program brings its own waiting (hw/pause.hpp allows for that), and so knows when a thread has begun
// to wait. What depends on the order of arrival can then be tested without the clock.

namespace {

thread_local int relaxed = 0;
thread_local int parked = 0;
std::atomic<int> threads_that_wait{0};

void note_first_wait() {
  if (relaxed + parked == 1) threads_that_wait.fetch_add(1);
}

}  // namespace

namespace espalier::hw {

void cpu_relax() noexcept {
  ++relaxed;
  note_first_wait();
}

void park() noexcept {
  ++parked;
  note_first_wait();
  sched_yield();
}

}  // namespace espalier::hw

namespace espalier {
namespace {

template <class Lock>
class fair_locks : public testing::Test {};

using fair_lock_types = testing::Types<ticket_lock, mcs_lock>;
TYPED_TEST_SUITE(fair_locks, fair_lock_types);

TYPED_TEST(fair_locks, serve_in_the_order_of_arrival) {
  TypeParam lock;
  // Tickets have 16 bits: the order must hold across their wrap.
  for (int i = 0; i < 65536 - 3; ++i) const lock_guard hold(lock);

  constexpr int waiters = 6;
  std::vector<int> served;
  std::vector<std::thread> threads;
  threads_that_wait.store(0);
  {
    const lock_guard hold(lock);
    for (int t = 0; t < waiters; ++t) {
      threads.emplace_back([&, t] {
        const lock_guard mine(lock);
        served.push_back(t);
      });
      // Both locks give out the place in the queue before the first wait.
      while (threads_that_wait.load() != t + 1) sched_yield();
    }
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(served, (std::vector<int>{0, 1, 2, 3, 4, 5}));
}

TYPED_TEST(fair_locks, try_lock_does_not_overtake) {
  TypeParam lock;
  threads_that_wait.store(0);
  std::atomic<bool> served{false};
  std::thread waiter;
  {
    const lock_guard hold(lock);
    waiter = std::thread([&] {
      const lock_guard mine(lock);
      served.store(true);
    });
    while (threads_that_wait.load() != 1) sched_yield();
    if constexpr (queue_lockable<TypeParam>) {
      typename TypeParam::queue_node node;
      EXPECT_FALSE(lock.try_lock(node));
    } else {
      EXPECT_FALSE(lock.try_lock());
    }
    EXPECT_FALSE(served.load());
  }
  waiter.join();
  EXPECT_TRUE(served.load());
}

TEST(backoff, doubles_its_range_then_parks) {
  backoff pause;
  int range = 1;
  for (int wait = 0; wait < 10; ++wait, range *= 2) {
    relaxed = parked = 0;
    pause.wait();
    EXPECT_GE(relaxed, 1) << wait;
    EXPECT_LE(relaxed, range) << wait;
    EXPECT_EQ(parked, 0) << wait;
  }
  for (int wait = 0; wait < 3; ++wait) {
    relaxed = parked = 0;
    pause.wait();
    EXPECT_EQ(relaxed, 0);
    EXPECT_EQ(parked, 1);
  }
}

}  // namespace
}  // namespace espalier
