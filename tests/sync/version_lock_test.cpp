#include "espalier/sync/version_lock.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <thread>

#include "support/on_threads.hpp"

namespace espalier {
namespace {

using pair = version_lock_pair;
using side = pair::side;
constexpr std::array sides{side::left, side::right};
constexpr side other(side s) { return s == side::left ? side::right : side::left; }

TEST(version_lock, acquiring_validates_the_version) {
  for (const side s : sides) {
    pair lock;
    const pair::version seen = lock.read(s);
    EXPECT_FALSE(pair::is_held(seen));
    ASSERT_TRUE(lock.try_lock(s, seen));
    EXPECT_TRUE(pair::is_held(lock.read(s)));
    EXPECT_FALSE(lock.try_lock(s, seen)) << "held";
    EXPECT_FALSE(lock.try_lock(s, lock.read(s))) << "an odd version is no permission";
    lock.unlock(s, seen);
    EXPECT_EQ(lock.read(s), seen + 2);
    EXPECT_FALSE(lock.try_lock(s, seen)) << "changed since";
    EXPECT_TRUE(lock.try_lock(s, seen + 2));
  }
}

TEST(version_lock, revert_keeps_the_version) {
  for (const side s : sides) {
    pair lock;
    ASSERT_TRUE(lock.try_lock(s, 0));
    lock.revert(s, 0);
    EXPECT_EQ(lock.read(s), 0U);
    EXPECT_TRUE(lock.try_lock(s, 0)) << "who saw this version is still right";
  }
}

TEST(version_lock, sides_are_independent) {
  for (const side s : sides) {
    pair lock;
    ASSERT_TRUE(lock.try_lock(s, 0));
    EXPECT_EQ(lock.read(other(s)), 0U);
    ASSERT_TRUE(lock.try_lock(other(s), 0));
    lock.unlock(other(s), 0);
    EXPECT_EQ(lock.read(other(s)), 2U);
    EXPECT_TRUE(pair::is_held(lock.read(s)));
    lock.revert(s, 0);
    EXPECT_EQ(lock.read(s), 0U);
    EXPECT_EQ(lock.read(other(s)), 2U);
  }
}

TEST(version_lock, both_or_neither) {
  pair lock;
  ASSERT_TRUE(lock.try_lock(side::left, 0));
  EXPECT_FALSE(lock.try_lock_both(0, 0));
  EXPECT_FALSE(lock.try_lock_both(1, 0)) << "an odd version is no permission";
  lock.unlock(side::left, 0);
  EXPECT_FALSE(lock.try_lock_both(0, 0)) << "left has changed";
  EXPECT_FALSE(lock.try_lock_both(2, 2)) << "right has not";
  EXPECT_EQ(lock.read(side::left), 2U);
  EXPECT_EQ(lock.read(side::right), 0U);
  ASSERT_TRUE(lock.try_lock_both(2, 0));
  EXPECT_EQ(lock.read(side::left), 3U);
  EXPECT_EQ(lock.read(side::right), 1U);
  lock.unlock(side::left, 2);
  lock.revert(side::right, 0);
  EXPECT_EQ(lock.read(side::left), 4U);
  EXPECT_EQ(lock.read(side::right), 0U);
}

// With four bits, one of them the lock, a side comes back to a version after eight updates.
TEST(version_lock, short_versions_wrap_within_their_side) {
  using narrow = basic_version_lock_pair<4>;
  for (const auto s : {narrow::side::left, narrow::side::right}) {
    const auto o = s == narrow::side::left ? narrow::side::right : narrow::side::left;
    narrow lock;
    ASSERT_TRUE(lock.try_lock(o, 0));
    lock.unlock(o, 0);
    const narrow::version stale = lock.read(s);
    for (unsigned update = 0; update < 8; ++update) {
      const narrow::version now = lock.read(s);
      EXPECT_EQ(now, 2 * update);
      if (update != 0) {
        EXPECT_FALSE(lock.try_lock(s, stale)) << update;
      }
      ASSERT_TRUE(lock.try_lock(s, now));
      lock.unlock(s, now);
      EXPECT_EQ(lock.read(o), 2U) << "the wrap must not reach the other side";
    }
    EXPECT_EQ(lock.read(s), stale);
    EXPECT_TRUE(lock.try_lock(s, stale)) << "the documented limit of the protocol";
  }
}

/// A pair with both sides held at the last version there is. Nobody holds a fresh pair, so this revert is
/// not what the contract allows: it takes one from a word of zeros and thereby sets every bit.
void hold_both_at_the_last_version(pair& lock) {
  lock.revert(side::left, 0);
  ASSERT_EQ(lock.read(side::left), 0xFFFFFFFFU);
  ASSERT_EQ(lock.read(side::right), 0xFFFFFFFFU);
}

TEST(version_lock, no_carry_between_the_halves) {
  constexpr pair::version last = 0xFFFFFFFE;
  for (const side s : sides) {
    pair lock;
    hold_both_at_the_last_version(lock);
    lock.unlock(s, last);
    EXPECT_EQ(lock.read(s), 0U);
    EXPECT_EQ(lock.read(other(s)), 0xFFFFFFFFU);
    lock.unlock(other(s), last);
    EXPECT_EQ(lock.read(s), 0U);
    EXPECT_EQ(lock.read(other(s)), 0U);
  }
  for (const side s : sides) {
    pair lock;
    hold_both_at_the_last_version(lock);
    lock.revert(s, last);
    EXPECT_EQ(lock.read(s), last);
    EXPECT_EQ(lock.read(other(s)), 0xFFFFFFFFU);
    lock.revert(other(s), last);
    ASSERT_TRUE(lock.try_lock_both(last, last));
    EXPECT_EQ(lock.read(s), 0xFFFFFFFFU);
    lock.unlock(s, last);
    lock.unlock(other(s), last);
    EXPECT_TRUE(lock.try_lock_both(0, 0));
  }
}

TEST(version_lock, excludes_on_each_side_and_on_both) {
  pair lock;
  std::array<int, 2> counter{};
  constexpr int rounds = 2000;
  const auto one_side = [&](std::size_t i) {
    for (int done = 0; done < rounds;) {
      const pair::version seen = lock.read(sides[i]);
      if (!lock.try_lock(sides[i], seen)) {
        std::this_thread::yield();
        continue;
      }
      ++counter[i];
      ++done;
      lock.unlock(sides[i], seen);
    }
  };
  const auto both_sides = [&] {
    for (int done = 0; done < rounds;) {
      const pair::version left = lock.read(side::left);
      const pair::version right = lock.read(side::right);
      if (!lock.try_lock_both(left, right)) {
        std::this_thread::yield();
        continue;
      }
      ++counter[0];
      ++counter[1];
      ++done;
      lock.unlock(side::left, left);
      lock.unlock(side::right, right);
    }
  };
  test::on_threads(5, [&](int t) { t == 4 ? both_sides() : one_side(static_cast<std::size_t>(t % 2)); });
  EXPECT_EQ(counter, (std::array<int, 2>{3 * rounds, 3 * rounds}));
  // Every update has moved its side by one version.
  EXPECT_EQ(lock.read(side::left), 2U * 3 * rounds);
  EXPECT_EQ(lock.read(side::right), 2U * 3 * rounds);
}

}  // namespace
}  // namespace espalier
