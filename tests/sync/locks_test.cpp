#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <thread>
#include <type_traits>

#include "espalier/sync/lock_concept.hpp"
#include "espalier/sync/mcs_lock.hpp"
#include "espalier/sync/std_mutex.hpp"
#include "espalier/sync/ticket_lock.hpp"
#include "espalier/sync/ttas_lock.hpp"
#include "support/on_threads.hpp"

// What every lock promises, of either kind.

namespace espalier {
namespace {

static_assert(elidable<ttas_lock> && elidable<ticket_lock>);
static_assert(queue_lockable<mcs_lock> && !lockable<mcs_lock>);
static_assert(lockable<std_mutex> && !elidable<std_mutex>);
static_assert(!std::is_copy_constructible_v<lock_guard<ttas_lock>>);

constexpr int threads = 4;
constexpr int rounds = 500;

/// Increments that survive when each of several threads reads, lets others run, and writes back. All of them
/// do if and only if the lock excludes.
template <class Lock, class Counter>
int surviving_increments() {
  Lock lock;
  Counter counter{0};
  test::on_threads(threads, [&](int) {
    for (int i = 0; i < rounds; ++i) {
      const lock_guard hold(lock);
      const int before = counter;
      if (i % 16 == 0) sched_yield();
      counter = before + 1;
    }
  });
  return counter;
}

template <class Lock>
class locks : public testing::Test {};

using lock_types = testing::Types<ttas_lock, ticket_lock, mcs_lock, std_mutex>;
TYPED_TEST_SUITE(locks, lock_types);

TYPED_TEST(locks, exclude) { EXPECT_EQ((surviving_increments<TypeParam, int>()), threads * rounds); }

/// One attempt to take and release the lock, on another thread.
template <class Lock>
bool another_thread_gets(Lock& lock) {
  bool got = false;
  std::thread([&] {
    if constexpr (queue_lockable<Lock>) {
      typename Lock::queue_node node;
      got = lock.try_lock(node);
      if (got) lock.unlock(node);
    } else {
      got = lock.try_lock();
      if (got) lock.unlock();
    }
  }).join();
  return got;
}

TYPED_TEST(locks, try_lock_succeeds_exactly_when_free) {
  TypeParam lock;
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(another_thread_gets(lock));
    {
      const lock_guard hold(lock);
      EXPECT_FALSE(another_thread_gets(lock));
      EXPECT_FALSE(another_thread_gets(lock)) << "a failed attempt must leave no trace";
      if constexpr (requires { lock.is_locked(); }) {
        EXPECT_TRUE(lock.is_locked());
      }
    }
    if constexpr (requires { lock.is_locked(); }) {
      EXPECT_FALSE(lock.is_locked());
    }
  }
}

TYPED_TEST(locks, try_lock_excludes_too) {
  TypeParam lock;
  int counter = 0;
  test::on_threads(threads, [&](int) {
    const auto increment = [&] {
      const int before = counter;
      sched_yield();
      counter = before + 1;
    };
    for (int done = 0; done < 50;) {
      if constexpr (queue_lockable<TypeParam>) {
        typename TypeParam::queue_node node;
        if (lock.try_lock(node)) {
          increment();
          ++done;
          lock.unlock(node);
        }
      } else if (lock.try_lock()) {
        increment();
        ++done;
        lock.unlock();
      }
      sched_yield();
    }
  });
  EXPECT_EQ(counter, threads * 50);
}

struct broken_lock {
  void lock() noexcept {}
  bool try_lock() noexcept { return true; }
  void unlock() noexcept {}
};

/// Reads and writes that race without being undefined.
struct racing_int {
  racing_int(int v) noexcept : value(v) {}  // NOLINT(google-explicit-constructor)
  operator int() const noexcept { return value.load(std::memory_order_relaxed); }  // NOLINT
  void operator=(int v) noexcept { value.store(v, std::memory_order_relaxed); }    // NOLINT
  std::atomic<int> value;
};

TEST(control, a_lock_that_does_not_exclude_is_caught) {
  int lowest = threads * rounds;
  for (int attempt = 0; attempt < 50 && lowest == threads * rounds; ++attempt)
    lowest = surviving_increments<broken_lock, racing_int>();
  EXPECT_LT(lowest, threads * rounds);
}

TEST(mcs, one_thread_holds_several_and_releases_in_any_order) {
  mcs_lock a;
  mcs_lock b;
  mcs_lock::queue_node for_a;
  mcs_lock::queue_node for_b;
  for (int i = 0; i < 3; ++i) {
    a.lock(for_a);
    b.lock(for_b);
    EXPECT_FALSE(another_thread_gets(a));
    EXPECT_FALSE(another_thread_gets(b));
    a.unlock(for_a);
    EXPECT_TRUE(another_thread_gets(a));
    EXPECT_FALSE(another_thread_gets(b));
    b.unlock(for_b);
    EXPECT_TRUE(another_thread_gets(b));
  }
}

TEST(mcs, guards_nest) {
  mcs_lock a;
  mcs_lock b;
  int counter = 0;
  test::on_threads(threads, [&](int) {
    for (int i = 0; i < 300; ++i) {
      const lock_guard outer(a);
      const lock_guard inner(b);
      ++counter;
    }
  });
  EXPECT_EQ(counter, threads * 300);
  EXPECT_FALSE(a.is_locked());
  EXPECT_FALSE(b.is_locked());
}

TEST(ticket, works_past_the_wrap_of_its_16_bits) {
  ticket_lock lock;
  for (int i = 0; i < 65535; ++i) {
    if (i % 2 == 0) {
      lock.lock();
    } else {
      ASSERT_TRUE(lock.try_lock());
    }
    lock.unlock();
  }
  // serving is 65535, the next ticket 0 comes within this hold.
  lock.lock();
  EXPECT_TRUE(lock.is_locked());
  EXPECT_FALSE(another_thread_gets(lock));
  lock.unlock();
  EXPECT_FALSE(lock.is_locked());
  EXPECT_TRUE(another_thread_gets(lock));
}

}  // namespace
}  // namespace espalier
