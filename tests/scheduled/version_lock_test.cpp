#include "espalier/sync/version_lock.hpp"

#include <gtest/gtest.h>

#include <atomic>

#include "scheduled/schedules.hpp"
#include "sim/explore.hpp"

namespace {

using namespace espalier;
using sim::scene;

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

sim::exploration_report explore(const char* name, const std::function<void(scene&)>& build) {
  sim::exploration_options o;
  o.schedules = sim::scaled_schedules(8000);
  return sim::explore(name, o, build);
}

TEST(version_lock, locking_at_a_version_is_validation) {
  const auto report = explore("locking_at_a_version_is_validation", [](scene& s) {
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
  EXPECT_TRUE(report.passed()) << report;
}

TEST(version_lock, both_sides_at_once) {
  const auto report = explore("both_sides_at_once", [](scene& s) {
    auto& p = s.make<pair>();
    s.thread("both", [&p] {
      while (!p.try_add_both()) sim::wait_for_others();
    });
    s.thread("left", [&p] { p.add(side::left); });
    s.thread("right", [&p] { p.add(side::right); });
    s.at_end([&p] { sim::require(p.left == 2 && p.right == 2, "no addition is lost"); });
  });
  EXPECT_TRUE(report.passed()) << report;
}

TEST(version_lock, what_is_reverted_has_not_happened) {
  const auto report = explore("what_is_reverted_has_not_happened", [](scene& s) {
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
  EXPECT_TRUE(report.passed()) << report;
}

TEST(version_lock, never_unlocked_means_removed) {
  const auto report = explore("never_unlocked_means_removed", [](scene& s) {
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
  EXPECT_TRUE(report.passed()) << report;
}

/// The control: with two bits the versions wrap after two updates, and an attempt that slept that long gets the lock
/// although all has changed.
TEST(version_lock, few_bits_wrap_and_lose_an_addition) {
  using narrow = guarded_pair<basic_version_lock_pair<2>>;
  const auto report = explore("few_bits_wrap", [](scene& s) {
    auto& p = s.make<narrow>();
    s.thread("sleeps", [&p] { p.add(narrow::side::left); });
    s.thread("twice", [&p] {
      p.add(narrow::side::left);
      p.add(narrow::side::left);
    });
    s.at_end([&p] { sim::require(p.left == 3, "no addition is lost"); });
  });
  ASSERT_FALSE(report.passed());
  EXPECT_EQ(report.failure->kind, sim::failure_kind::requirement) << report;
}

}  // namespace
