#include "espalier/sync/optimistic_lock.hpp"

#include <gtest/gtest.h>

#include <type_traits>
#include <utility>

#include "support/on_threads.hpp"

namespace espalier {
namespace {

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
  EXPECT_EQ(field.at_rest(), 5);
  const section seen = lock.read();
  EXPECT_EQ(field.load(seen), 5);
  {
    const guard held = seen.upgrade();
    field.store(held, 6);
    EXPECT_EQ(field.load(held), 6);
  }
  EXPECT_EQ(field.load(lock.read()), 6);
  EXPECT_EQ(optimistic_field<int*>().at_rest(), nullptr);
}

TEST(optimistic_lock, readers_see_writers_whole) {
  optimistic_lock lock;
  optimistic_field<int> left(0);
  optimistic_field<int> right(0);
  constexpr int rounds = 2000;
  test::on_threads(4, [&](int t) {
    for (int done = 0; done < rounds;) {
      const section seen = lock.read();
      const int a = left.load(seen);
      const int b = right.load(seen);
      if (t % 2 == 0) {
        if (!seen.validate()) continue;
        ASSERT_EQ(a, b);
        ++done;
      } else if (const guard held = seen.upgrade()) {
        left.store(held, a + 1);
        right.store(held, b + 1);
        ++done;
      }
    }
  });
  EXPECT_EQ(left.at_rest(), 2 * rounds);
  EXPECT_EQ(right.at_rest(), 2 * rounds);
}

}  // namespace
}  // namespace espalier
