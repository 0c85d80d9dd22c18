// Locks, counters and grace periods under chosen schedules.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <string>

#include "espalier/hw/pause.hpp"
#include "espalier/reclaim/rcu.hpp"
#include "espalier/sync/elided_lock.hpp"
#include "espalier/sync/mcs_lock.hpp"
#include "espalier/sync/std_mutex.hpp"
#include "espalier/sync/ticket_lock.hpp"
#include "espalier/sync/ttas_lock.hpp"
#include "espalier/sync/version_lock.hpp"
#include "scheduled/elided_lock_scenes.hpp"
#include "scheduled/expect.hpp"
#include "scheduled/lock_scenes.hpp"
#include "scheduled/optimistic_lock_scenes.hpp"
#include "scheduled/per_thread_scenes.hpp"
#include "scheduled/rcu_scenes.hpp"

namespace {

using namespace espalier;
using sim::scene;

template <class Lock>
class locks : public ::testing::Test {};

using all_locks = ::testing::Types<ttas_lock, ticket_lock, mcs_lock, std_mutex>;
TYPED_TEST_SUITE(locks, all_locks);

TYPED_TEST(locks, exclude_two_threads) {
  sim::expect_kept_in_all_models(4000, sim::mutual_exclusion<TypeParam, 2, 3>);
}
TYPED_TEST(locks, exclude_three_threads) {
  sim::expect_kept_in_all_models(4000, sim::mutual_exclusion<TypeParam, 3, 2>);
}
TYPED_TEST(locks, exclude_four_threads) {
  sim::expect_kept_in_all_models(4000, sim::mutual_exclusion<TypeParam, 4, 1>);
}
TYPED_TEST(locks, are_tried) { sim::expect_kept_in_all_models(4000, sim::tries_beside_lock<TypeParam, 2>); }
TYPED_TEST(locks, nest) { sim::expect_kept_in_all_models(4000, sim::nested_locks<TypeParam>); }

/// The next thread sees what one thread did before it unlocked. Nothing but the lock orders a plain store.
TYPED_TEST(locks, hand_on_what_was_written) {
  sim::expect_kept_in_all_models(4000, [](scene& s) {
    struct list {
      TypeParam lock;
      int* last = nullptr;
      int values[6]{};
      int used = 0;
    };
    auto& shared = s.make<list>();
    for (const char* name : {"a", "b", "c"}) {
      s.thread(name, [&shared] {
        for (int round = 0; round < 2; ++round) {
          sim::lock_user<TypeParam> user(shared.lock);
          user.lock();
          int* const mine = &shared.values[shared.used++];
          *mine = shared.last == nullptr ? 1 : *shared.last + 1;
          shared.last = mine;
          user.unlock();
        }
      });
    }
    s.at_end([&shared] { sim::require(*shared.last == 6, "each saw what the one before it wrote"); });
  });
}

TEST(optimistic_lock, keeps_its_promises) {
  sim::optimistic::for_each_scene([](const char* name, void (*build)(sim::scene&)) {
    SCOPED_TRACE(name);
    sim::expect_kept(6000, build);
  });
}

/// The control: a reader that does not validate sees half of a change.
TEST(optimistic_lock, what_is_not_validated_may_be_torn) {
  sim::expect_broken(sim::failure_kind::requirement, 6000, [](scene& s) {
    auto& p = s.make<sim::optimistic::guarded_pair>();
    s.thread("writes", [&p] { p.add(); });
    s.thread("reads", [&p] {
      const optimistic_lock::read_section seen = p.lock.read();
      const int a = p.left.get(seen);
      sim::require(a == p.right.get(seen), "torn");
    });
  });
}

/// A number behind each side of a lock.
template <class Lock>
struct guarded_pair {
  using side = typename Lock::side;
  using version = typename Lock::version;

  Lock lock;
  std::atomic<int> left{0};
  std::atomic<int> right{0};

  std::atomic<int>& of(side s) { return s == side::left ? left : right; }

  /// Adds one to what was read without the lock. This is correct only if locking at the version validates the read.
  bool try_add(side s) {
    const version seen = lock.read(s);
    const int before = of(s).load(std::memory_order_acquire);
    if (!lock.try_lock(s, seen)) return false;
    of(s).store(before + 1, std::memory_order_release);
    lock.unlock(s, seen);
    return true;
  }
  bool try_add_both() {
    const version seen_left = lock.read(side::left);
    const version seen_right = lock.read(side::right);
    const int left_before = left.load(std::memory_order_acquire);
    const int right_before = right.load(std::memory_order_acquire);
    if (!lock.try_lock_both(seen_left, seen_right)) return false;
    left.store(left_before + 1, std::memory_order_release);
    right.store(right_before + 1, std::memory_order_release);
    lock.unlock(side::left, seen_left);
    lock.unlock(side::right, seen_right);
    return true;
  }
  void add(side s) {
    while (!try_add(s)) sim::wait_for_others();
  }
};

using pair = guarded_pair<version_lock_pair>;
using side = version_lock_pair::side;

TEST(version_lock, locking_at_a_version_is_validation) {
  sim::expect_kept(8000, [](scene& s) {
    auto& p = s.make<pair>();
    for (const char* name : {"a", "b"}) {
      s.thread(name, [&p] {
        p.add(side::left);
        p.add(side::left);
      });
    }
    s.thread("right", [&p] {
      p.add(side::right);
      p.add(side::right);
    });
    s.at_end([&p] {
      sim::require(p.left == 4 && p.right == 2, "no addition is lost");
      sim::require(p.lock.read(side::left) == 8 && p.lock.read(side::right) == 4,
                   "each unlock moves its own side on by one even version");
    });
  });
}

TEST(version_lock, both_sides_at_once) {
  sim::expect_kept(8000, [](scene& s) {
    auto& p = s.make<pair>();
    s.thread("both", [&p] {
      while (!p.try_add_both()) sim::wait_for_others();
    });
    s.thread("left", [&p] { p.add(side::left); });
    s.thread("right", [&p] { p.add(side::right); });
    s.at_end([&p] { sim::require(p.left == 2 && p.right == 2, "no addition is lost"); });
  });
}

TEST(version_lock, what_is_reverted_has_not_happened) {
  sim::expect_kept(8000, [](scene& s) {
    auto& p = s.make<pair>();
    const auto seen = p.lock.read(side::left);
    s.thread("reverts", [&p] {
      const auto mine = p.lock.read(side::left);
      if (p.lock.try_lock(side::left, mine)) p.lock.revert(side::left, mine);
    });
    // Fails while the other thread holds it, and never after.
    s.thread("keeps its version", [&p, seen] {
      while (!p.lock.try_lock(side::left, seen)) sim::wait_for_others();
      p.lock.unlock(side::left, seen);
    });
    s.at_end([&p] { sim::require(p.lock.read(side::left) == 2, "one change is counted"); });
  });
}

TEST(version_lock, never_unlocked_means_removed) {
  sim::expect_kept(8000, [](scene& s) {
    auto& p = s.make<pair>();
    auto& removed = s.make<std::atomic<bool>>(false);
    s.thread("removes", [&] {
      while (true) {
        const auto left = p.lock.read(side::left);
        const auto right = p.lock.read(side::right);
        if (p.lock.try_lock_both(left, right)) break;
        sim::wait_for_others();
      }
      removed.store(true);
    });
    for (const auto which : {side::left, side::right}) {
      s.thread(which == side::left ? "left" : "right", [&, which] {
        for (int i = 0; i < 3; ++i) {
          const auto seen = p.lock.read(which);
          if (!p.lock.try_lock(which, seen)) continue;
          sim::require(!removed.load(), "a removed side is locked");
          p.lock.unlock(which, seen);
        }
      });
    }
    s.at_end([&] {
      sim::require(version_lock_pair::is_held(p.lock.read(side::left)) &&
                       version_lock_pair::is_held(p.lock.read(side::right)),
                   "what was removed stays so");
    });
  });
}

/// The control: with two bits the versions wrap after two updates, and an attempt that slept that long gets the lock
/// although all has changed.
TEST(version_lock, few_bits_wrap_and_lose_an_addition) {
  using narrow = guarded_pair<basic_version_lock_pair<2>>;
  sim::expect_broken(sim::failure_kind::requirement, 8000, [](scene& s) {
    auto& p = s.make<narrow>();
    s.thread("sleeps", [&p] { p.add(narrow::side::left); });
    s.thread("twice", [&p] {
      p.add(narrow::side::left);
      p.add(narrow::side::left);
    });
    s.at_end([&p] { sim::require(p.left == 3, "no addition is lost"); });
  });
}

// Elided locks in the simulator's transactions, under many schedules: with all causes of aborts, and concurrent with
// sections that take the lock.

template <class Lock>
class elided_locks : public ::testing::Test {};

using elided = ::testing::Types<ttas_lock, ticket_lock>;
TYPED_TEST_SUITE(elided_locks, elided);

TYPED_TEST(elided_locks, sections_exclude_one_another) {
  const auto counts = sim::expect_kept(2000, sim::elided_and_plain_sections<TypeParam>).transactions;
  EXPECT_GT(counts.committed, 0U);
  EXPECT_GT(counts.of(hw::abort_cause::conflict), 0U);
  EXPECT_GT(counts.of(hw::abort_cause::explicit_abort), 0U) << "no transaction ever finds the lock taken";
  EXPECT_GT(counts.of(hw::abort_cause::other), 0U);
}
TYPED_TEST(elided_locks, no_half_section_is_seen) {
  EXPECT_GT(sim::expect_kept(2000, sim::elided_reader_of_a_pair<TypeParam>).transactions.committed, 0U);
}
TYPED_TEST(elided_locks, the_holder_keeps_the_lock) {
  EXPECT_GT(sim::expect_kept(2000, sim::elided_writer_through_an_index<TypeParam>).transactions.committed,
            0U);
}
TYPED_TEST(elided_locks, sections_nest) {
  EXPECT_GT(sim::expect_kept(2000, sim::nested_elided_sections<TypeParam>).transactions.committed, 0U);
}
TYPED_TEST(elided_locks, a_counter_is_linearizable) {
  EXPECT_GT(sim::expect_kept(2000, sim::linearizable_elided_counter<TypeParam>).transactions.committed, 0U);
}

TEST(attempts_to_elide, begin_where_the_lock_looks_free) {
  EXPECT_GT(sim::expect_kept(2000, sim::attempts_begin_where_the_lock_looks_free).transactions.committed, 0U);
}
TEST(attempts_to_elide, are_learnt_from) { sim::expect_kept(50, sim::fallbacks_are_learnt); }
TEST(attempts_to_elide, wait_for_an_inner_lock) { sim::expect_kept(50, sim::an_inner_lock_is_waited_for); }

TEST(elided_locks_without_transactions, exclude) {
  sim::exploration_options o;
  o.transactions.reset();
  EXPECT_EQ(sim::expect_kept(500, sim::elided_and_plain_sections<ttas_lock>, o).transactions.begun, 0U);
}

// Threads that sleep on words (hw/pause.hpp): no wake-up is lost, sleeps may end spuriously, and a thread that nothing
// wakes is reported.

using word = std::atomic<std::uint32_t>;

TEST(waiting, a_wake_up_is_never_lost) {
  sim::expect_kept(4000, [](scene& s) {
    struct box {
      word full{0};
      int contents = 0;
    };
    auto& b = s.make<box>();
    s.thread("takes", [&b] {
      while (b.full.load(std::memory_order_acquire) == 0) hw::wait_on(b.full, 0);
      sim::require(b.contents == 7, "what was stored before the wake-up is there");
    });
    s.thread("fills", [&b] {
      b.contents = 7;
      b.full.store(1, std::memory_order_release);
      hw::wake_one(b.full);
    });
  });
}

TEST(waiting, two_threads_take_turns) {
  sim::expect_kept(4000, [](scene& s) {
    auto& turn = s.make<word>(0U);
    for (const std::uint32_t mine : {0U, 1U}) {
      s.thread(mine == 0 ? "even" : "odd", [&turn, mine] {
        for (int i = 0; i < 2; ++i) {
          for (std::uint32_t seen = turn.load(); seen % 2 != mine; seen = turn.load())
            hw::wait_on(turn, seen);
          turn.store(turn.load() + 1);
          hw::wake_one(turn);
        }
      });
    }
    s.at_end([&turn] { sim::require(turn == 4, "each had both of its turns"); });
  });
}

TEST(waiting, one_or_all_sleepers_are_woken) {
  sim::expect_kept(4000, [](scene& s) {
    auto& gate = s.make<word>(0U);
    for (const char* name : {"a", "b", "c"}) {
      s.thread(name, [&gate] {
        while (gate.load() == 0) hw::wait_on(gate, 0);
        hw::wake_one(gate);  // each thread that passes wakes one more sleeper
      });
    }
    s.thread("opens", [&gate] {
      gate.store(1);
      hw::wake_one(gate);
      hw::wake_all(gate);
    });
  });
}

/// The control: the word is stored after the wake-up, so the sleeper may never learn of it.
TEST(waiting, a_lost_wake_up_is_reported) {
  sim::expect_broken(
      sim::failure_kind::livelock, 4000,
      [](scene& s) {
        auto& gate = s.make<word>(0U);
        s.thread("sleeps", [&gate] {
          while (gate.load() == 0) hw::wait_on(gate, 0);
        });
        s.thread("opens", [&gate] {
          hw::wake_all(gate);
          gate.store(1);
        });
      },
      "all threads sleep");
}

/// The control: a thread that takes the return for the event believes a spurious one.
TEST(waiting, a_spurious_return_is_possible) {
  sim::expect_broken(sim::failure_kind::requirement, 4000, [](scene& s) {
    auto& gate = s.make<word>(0U);
    for (const char* name : {"a", "b", "c"}) {
      s.thread(name, [&gate] {
        if (gate.load() == 0) hw::wait_on(gate, 0);
        sim::require(gate.load() != 0, "the return is the event");
      });
    }
    s.thread("opens", [&gate] {
      gate.store(1);
      hw::wake_all(gate);
    });
  });
}

TEST(striped_counter, sums_what_threads_add) { sim::expect_kept(4000, sim::additions_are_counted); }

TEST(per_thread, each_has_its_own) { sim::expect_kept(4000, sim::elements_are_kept_apart); }

TEST(rcu, a_section_is_waited_for) { sim::expect_kept_in_all_models(5000, sim::section_is_waited_for); }

TEST(rcu, all_sections_are_waited_for) {
  sim::expect_kept_in_all_models(5000, sim::all_sections_are_waited_for);
}

TEST(rcu, two_wait_at_once) { sim::expect_kept_in_all_models(5000, sim::two_wait_at_once); }

/// A thread that has ended, or that waits for the caller outside of sections, delays no grace period.
TEST(rcu, threads_outside_are_not_waited_for) {
  sim::expect_kept_in_all_models(5000, [](scene& s) {
    auto& domain = s.make<rcu_domain>();
    auto& returned = s.make<std::atomic<bool>>(false);
    s.thread("ends", [&] { const rcu_domain::read_section inside(domain); });
    s.thread("waits outside", [&] {
      {
        const rcu_domain::read_section inside(domain);
      }
      while (!returned.load()) sim::wait_for_others();
    });
    s.thread("synchronizes", [&] {
      domain.synchronize();
      returned = true;
    });
  });
}

/// Sections of another domain are not waited for.
TEST(rcu, domains_are_apart) {
  sim::expect_kept_in_all_models(5000, [](scene& s) {
    auto& one = s.make<rcu_domain>();
    auto& other = s.make<rcu_domain>();
    auto& returned = s.make<std::atomic<bool>>(false);
    s.thread("stays inside", [&] {
      const rcu_domain::read_section inside(other);
      while (!returned.load()) sim::wait_for_others();
      one.synchronize();
    });
    s.thread("synchronizes", [&] {
      one.synchronize();
      returned = true;
    });
  });
}

}  // namespace
