// Locks: those that threads wait for, and those with versions.

#include <gtest/gtest.h>
#include <sched.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <random>
#include <thread>
#include <type_traits>
#include <utility>

#include "espalier/sync/lock_concept.hpp"
#include "espalier/sync/mcs_lock.hpp"
#include "espalier/sync/optimistic_lock.hpp"
#include "espalier/sync/std_mutex.hpp"
#include "espalier/sync/ticket_lock.hpp"
#include "espalier/sync/ttas_lock.hpp"
#include "espalier/sync/version_lock.hpp"
#include "support/on_threads.hpp"

namespace espalier {
namespace {

static_assert(elidable<ttas_lock> && elidable<ticket_lock>);
static_assert(queue_lockable<mcs_lock> && !lockable<mcs_lock>);
static_assert(lockable<std_mutex> && !elidable<std_mutex>);
static_assert(!std::is_copy_constructible_v<lock_guard<ttas_lock>>);

constexpr int threads = 4;
constexpr int visits = 500;

/// Increments that survive when each of several threads reads, lets others run, and writes back. All of them
/// do if and only if the lock excludes.
template <class Lock, class Counter>
int surviving_increments() {
  Lock lock;
  Counter counter{0};
  test::on_threads(threads, [&](int) {
    for (int i = 0; i < visits; ++i) {
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

TYPED_TEST(locks, exclude) { EXPECT_EQ((surviving_increments<TypeParam, int>()), threads * visits); }

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

struct broken_lock {
  void lock() noexcept {}
  bool try_lock() noexcept { return true; }
  void unlock() noexcept {}
};

/// Reads and writes that race without being undefined. Other threads run between a read and the write.
struct racing_int {
  racing_int(int v) noexcept : value(v) {}  // NOLINT(google-explicit-constructor)
  operator int() const noexcept {           // NOLINT
    const int now = value.load(std::memory_order_relaxed);
    std::this_thread::yield();
    return now;
  }
  void operator=(int v) noexcept { value.store(v, std::memory_order_relaxed); }  // NOLINT
  std::atomic<int> value;
};

TEST(control, a_lock_that_does_not_exclude_is_caught) {
  int lowest = threads * visits;
  for (int attempt = 0; attempt < 50 && lowest == threads * visits; ++attempt)
    lowest = surviving_increments<broken_lock, racing_int>();
  EXPECT_LT(lowest, threads * visits);
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

TEST(optimistic_version, a_hint_lasts_until_a_change_ends) {
  using enum optimistic_version::hint;
  for (const auto& [one, other] : {std::pair{first, second}, {second, first}}) {
    optimistic_version version;
    const auto before = version.try_read();
    EXPECT_FALSE(before.has(one));
    version.mark(one);
    EXPECT_FALSE(before.validate());
    const auto marked = version.try_read();
    EXPECT_TRUE(marked.steady() && marked.has(one) && marked.validate());
    EXPECT_FALSE(marked.has(other));
    version.change().release_unchanged();
    EXPECT_TRUE(marked.validate());
    version.change().release();
    EXPECT_FALSE(marked.validate());
    EXPECT_TRUE(version.try_read().steady());
    EXPECT_FALSE(version.try_read().has(one));
  }
}

TEST(optimistic_version, a_stamp_is_valid_until_a_change_begins) {
  optimistic_version version;
  const optimistic_version::stamp seen = version.read();
  EXPECT_TRUE(seen.steady() && version.validate(seen) && version.validate(optimistic_version::stamp()));
  auto change = version.change();
  EXPECT_TRUE(version.now().changing() && !version.now().steady() && !version.validate(seen));
  change.release();
  EXPECT_TRUE(version.read().steady() && version.validate(version.read()) && !version.validate(seen));
  const optimistic_version::stamp before = version.read();
  version.renew();
  EXPECT_TRUE(version.now().steady() && !version.validate(before) && !version.validate(seen));
  version.make_obsolete();
  EXPECT_TRUE(version.read().obsolete() && !version.now().steady() && version.validate(version.read()));
}

using section = optimistic_lock::read_section;
using guard = optimistic_lock::write_guard;

static_assert(!std::is_copy_constructible_v<optimistic_lock> && !std::is_copy_constructible_v<guard>);
static_assert(std::is_nothrow_move_constructible_v<guard> && std::is_nothrow_move_assignable_v<guard>);
static_assert(sizeof(optimistic_field<int*>) == sizeof(int*));

TEST(optimistic_lock, a_section_is_valid_until_a_writer_comes) {
  optimistic_lock lock;
  const section seen = lock.read();
  EXPECT_TRUE(seen.validate());
  EXPECT_TRUE(seen.validate()) << "it may be asked again";
  const section same = lock.read();
  {
    const guard held = lock.lock();
    ASSERT_TRUE(held);
    EXPECT_TRUE(lock.is_locked());
    EXPECT_FALSE(seen.validate()) << "held";
  }
  EXPECT_FALSE(lock.is_locked());
  EXPECT_FALSE(seen.validate()) << "changed since";
  EXPECT_FALSE(same.validate());
  EXPECT_TRUE(lock.read().validate());
}

TEST(optimistic_lock, an_upgrade_is_a_validation) {
  optimistic_lock lock;
  const section first = lock.read();
  const section second = lock.read();
  {
    guard held = first.upgrade();
    ASSERT_TRUE(held);
    EXPECT_FALSE(second.upgrade()) << "held";
    EXPECT_FALSE(first.upgrade()) << "not recursive";
    held.release();
    EXPECT_FALSE(held);
  }
  EXPECT_FALSE(second.upgrade()) << "changed since";
  EXPECT_TRUE(lock.read().upgrade());
}

TEST(optimistic_lock, what_is_released_unchanged_has_not_happened) {
  optimistic_lock lock;
  const section seen = lock.read();
  guard held = lock.lock();
  EXPECT_FALSE(seen.validate());
  held.release_unchanged();
  EXPECT_TRUE(seen.validate());
  EXPECT_TRUE(seen.upgrade());
}

TEST(optimistic_lock, obsolete_is_for_ever) {
  optimistic_lock lock;
  const section before = lock.read();
  EXPECT_FALSE(before.obsolete());
  guard held = lock.lock();
  held.release_obsolete();
  EXPECT_FALSE(lock.is_locked());
  EXPECT_FALSE(before.validate());
  EXPECT_FALSE(before.upgrade());
  const section after = lock.read();
  EXPECT_TRUE(after.obsolete());
  EXPECT_TRUE(after.validate()) << "what an obsolete object holds no longer changes";
  EXPECT_FALSE(after.upgrade());
  EXPECT_FALSE(lock.lock()) << "and does not wait";
}

TEST(optimistic_lock, a_guard_moves_with_the_lock) {
  optimistic_lock one;
  optimistic_lock other;
  guard held = one.lock();
  guard moved = std::move(held);
  EXPECT_FALSE(held);  // NOLINT(bugprone-use-after-move): it is empty
  EXPECT_TRUE(moved);
  EXPECT_TRUE(one.is_locked());
  moved = other.lock();
  EXPECT_FALSE(one.is_locked()) << "assignment releases";
  EXPECT_TRUE(other.is_locked());
  moved = guard();
  EXPECT_FALSE(other.is_locked());
}

TEST(optimistic_lock, a_field_is_read_in_a_section_and_written_with_a_guard) {
  optimistic_lock lock;
  optimistic_field<int> field(5);
  EXPECT_EQ(field.get(exclusive_access{}), 5);
  const section seen = lock.read();
  EXPECT_EQ(field.get(seen), 5);
  {
    const guard held = seen.upgrade();
    field.set(held, 6);
    EXPECT_EQ(field.get(held), 6);
  }
  EXPECT_EQ(field.get(lock.read()), 6);
  EXPECT_EQ(optimistic_field<int*>().get(exclusive_access{}), nullptr);
}

TEST(optimistic_lock, readers_see_writers_whole) {
  optimistic_lock lock;
  optimistic_field<int> left(0);
  optimistic_field<int> right(0);
  constexpr int rounds = 2000;
  test::on_threads(4, [&](int t) {
    for (int done = 0; done < rounds;) {
      const section seen = lock.read();
      const int a = left.get(seen);
      const int b = right.get(seen);
      if (t % 2 == 0) {
        if (!seen.validate()) continue;
        ASSERT_EQ(a, b);
        ++done;
      } else if (const guard held = seen.upgrade()) {
        left.set(held, a + 1);
        right.set(held, b + 1);
        ++done;
      }
    }
  });
  EXPECT_EQ(left.get(exclusive_access{}), 2 * rounds);
  EXPECT_EQ(right.get(exclusive_access{}), 2 * rounds);
}

using pair = version_lock_pair;
using side = pair::side;

/// Performs random calls, each that the contract allows, on a pair and on a model of it: two numbers, which are odd while
/// their side is held. Versions go up to `last`, an odd one, and begin at `first`.
template <class Pair>
void expect_two_versions(Pair& lock, typename Pair::version first, typename Pair::version last) {
  using version = typename Pair::version;
  using of = typename Pair::side;
  constexpr std::array both{of::left, of::right};
  std::array<version, 2> now{first, first};
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    const std::size_t s = random() % 2;
    // The version that is right, one that was, and one that will be.
    const auto guess = [&](std::size_t of_side) {
      return static_cast<version>((now[of_side] + random() % 5 - 2) & last);
    };
    const bool held = now[s] % 2 == 1;
    const version before = now[s] - 1;
    switch (random() % 4) {
      case 0:
        if (held) {
          lock.unlock(both[s], before);
          now[s] = (before + 2) & last;
        }
        break;
      case 1:
        if (held) {
          lock.revert(both[s], before);
          now[s] = before;
        }
        break;
      case 2: {
        const version expected = guess(s);
        const bool right = !held && expected == now[s];
        ASSERT_EQ(lock.try_lock(both[s], expected), right) << expected << " at " << now[s];
        if (right) ++now[s];
        break;
      }
      default: {
        const std::array expected{guess(0), guess(1)};
        const bool right = expected == now && now[0] % 2 == 0 && now[1] % 2 == 0;
        ASSERT_EQ(lock.try_lock_both(expected[0], expected[1]), right);
        if (right) now = {static_cast<version>(now[0] + 1), static_cast<version>(now[1] + 1)};
      }
    }
    for (const std::size_t each : {0U, 1U}) {
      ASSERT_EQ(lock.read(both[each]), now[each]);
      ASSERT_EQ(Pair::is_held(lock.read(both[each])), now[each] % 2 == 1);
    }
  }
}

// With four bits, one of them the lock, a side comes back to a version after eight updates: the documented limit.
TEST(version_lock, sides_are_two_versions_that_wrap_apart) {
  basic_version_lock_pair<4> narrow;
  expect_two_versions(narrow, 0, 15);
  // A pair with both sides held at the last version there is. No thread holds a fresh pair, so this revert is not what
  // the contract allows: it takes one from a word of zeros and thereby sets every bit.
  pair wide;
  wide.revert(side::left, 0);
  expect_two_versions(wide, 0xFFFFFFFFU, 0xFFFFFFFFU);
}

}  // namespace
}  // namespace espalier
