#include "preload/recording/peak_watch.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "support/on_threads.hpp"

namespace espalier::preload {
namespace {

using verdict = peak_watch::verdict;
constexpr std::int64_t mebi = 1 << 20;

struct preload_peak_watch : ::testing::Test {
  peak_watch watch;
  byte_drift mine{};

  preload_peak_watch() { watch.start(true, 0); }

  /// What a thread does that is given a block, and that gives one back: true where it told.
  bool grow(std::int64_t bytes, byte_drift& by) {
    if (by.grow(bytes)) return false;
    watch.tell(by);
    return true;
  }
  bool grow(std::int64_t bytes) { return grow(bytes, mine); }
  verdict shrink(std::int64_t bytes) {
    return mine.shrink(bytes) ? verdict::none : watch.judge(watch.tell(mine));
  }
  /// In steps.
  void fill(std::int64_t bytes) {
    for (std::int64_t left = bytes; left > 0; left -= 1000) grow(std::min<std::int64_t>(left, 1000));
  }
  /// The first verdict that is not none while so much goes; how much had gone then is in `gone`.
  verdict empty(std::int64_t bytes) {
    for (gone = 0; gone < bytes;) {
      gone += 1000;
      if (const verdict judged = shrink(1000); judged != verdict::none) return judged;
    }
    return verdict::none;
  }
  std::int64_t gone = 0;
};

TEST_F(preload_peak_watch, tells_of_a_heap_that_grows_in_few_steps) {
  int told = 0;
  for (int i = 0; i < 1'000'000; ++i) told += grow(48) ? 1 : 0;
  EXPECT_LT(told, 256 * 15) << "each time that it grew by a 256th";
  EXPECT_NEAR(static_cast<double>(watch.highest()), 48e6, 48e6 / 200);
}

TEST_F(preload_peak_watch, is_for_a_crest_when_a_64th_is_gone) {
  fill(10 * mebi);
  EXPECT_EQ(empty(mebi), verdict::due);
  EXPECT_LE(gone, 10 * mebi / 40);
  EXPECT_GE(gone, 10 * mebi / 64);
}

TEST_F(preload_peak_watch, knows_before_a_large_block_is_gone) {
  grow(1000);
  grow(100 * mebi);
  EXPECT_EQ(shrink(100 * mebi), verdict::due);
  EXPECT_GE(watch.highest(), 100 * mebi);
}

TEST_F(preload_peak_watch, is_for_no_crest_twice) {
  fill(10 * mebi);
  EXPECT_EQ(empty(mebi), verdict::due);
  watch.taken(10 * mebi - gone, 1000, 0, 1);
  EXPECT_EQ(empty(5 * mebi), verdict::none);
  fill(5 * mebi);
  EXPECT_EQ(empty(5 * mebi), verdict::none) << "no higher than before";
}

TEST_F(preload_peak_watch, is_for_higher_crests_as_they_are_worth) {
  fill(10 * mebi);
  EXPECT_EQ(empty(mebi), verdict::due);
  watch.taken(10 * mebi, 1000, 0, 1);
  const auto crest_of = [&](std::int64_t bytes) { fill(bytes - watch.change(0) - mine.bytes()); };
  crest_of(10 * mebi + mebi / 10);
  EXPECT_EQ(empty(3 * mebi), verdict::none) << "a hundredth more is nothing";
  crest_of(11 * mebi);
  EXPECT_EQ(empty(3 * mebi), verdict::if_affordable);
  EXPECT_LE(gone, mebi / 2);
  crest_of(13 * mebi);
  EXPECT_EQ(empty(3 * mebi), verdict::if_affordable);
  // Too dear.
  EXPECT_FALSE(watch.affordable(1'000'000, 1'000'000, 1000));
  EXPECT_EQ(empty(6 * mebi), verdict::due) << "a quarter more is worth it when it is about to be lost";
  watch.taken(12 * mebi, 1000, 0, 1);
  crest_of(49 * mebi);
  EXPECT_EQ(empty(3 * mebi), verdict::due) << "four times as much is";
  EXPECT_LE(gone, 2 * mebi);
}

TEST_F(preload_peak_watch, affords_what_is_little_beside_the_rest) {
  EXPECT_TRUE(watch.affordable(10'000, 10'000, 1)) << "a small heap";
  EXPECT_FALSE(watch.affordable(1'000'000, 1'000'000, 1)) << "all that was ever done, once more";
  EXPECT_TRUE(watch.affordable(1'000'000, 10'000'000, 1));
  constexpr std::uint64_t second = 1'000'000'000;
  EXPECT_TRUE(watch.affordable(1'000'000, 1'000'000, 10 * second)) << "by time";
  for (int i = 0; i < 5; ++i) watch.taken(mebi, 1'000'000, 0, second / 5);
  EXPECT_FALSE(watch.affordable(1'000'000, 10'000'000, 10 * second)) << "with those before";
  EXPECT_TRUE(watch.affordable(1'000'000, 100'000'000, 10 * second));
  EXPECT_TRUE(watch.affordable(1'000'000, 10'000'000, 20 * second));
}

TEST_F(preload_peak_watch, asks_less_often_what_it_cannot_afford) {
  fill(10 * mebi);
  EXPECT_EQ(empty(mebi), verdict::due);
  watch.taken(10 * mebi, 1000, 0, 1);
  fill(mebi);
  int asked = 0;
  for (int i = 0; i < 6400; ++i) {
    grow(mebi);
    if (shrink(mebi) != verdict::if_affordable) continue;
    ++asked;
    EXPECT_FALSE(watch.affordable(1'000'000, 1'000'000, 1));
  }
  EXPECT_GE(asked, 50);
  EXPECT_LE(asked, 110);
}

TEST_F(preload_peak_watch, has_the_sum_of_threads_that_tell_now_and_then) {
  // Each fills and frees in turn, by more than all have together at times, and keeps a little.
  constexpr int threads = 8;
  constexpr std::int64_t kept = 100;
  std::array<std::uint64_t, threads> told{};
  test::on_threads(threads, [&](int t) {
    byte_drift drift{};
    for (int i = 0; i < 20'000; ++i) {
      if (grow(5000, drift)) ++told[static_cast<std::size_t>(t)];
      if (!drift.shrink(5000 - kept)) {
        watch.tell(drift);
        ++told[static_cast<std::size_t>(t)];
      }
    }
    watch.tell_last(drift);
    EXPECT_EQ(drift.bytes(), 0);
  });
  EXPECT_EQ(watch.change(0), threads * 20'000 * kept);
  for (const std::uint64_t count : told) EXPECT_LT(count, 20'000U) << "of 40,000 steps";
  EXPECT_NEAR(static_cast<double>(watch.highest()), threads * 20'000.0 * kept, 500'000);
}

TEST_F(preload_peak_watch, begins_anew_in_a_child) {
  fill(10 * mebi);
  EXPECT_EQ(empty(5 * mebi), verdict::due);
  watch.taken(10 * mebi, 1000, 0, 1);
  watch.tell(mine);
  watch.begin_anew(5);
  EXPECT_EQ(watch.highest(), watch.change(0));
  EXPECT_LT(watch.highest(), 10 * mebi);
  EXPECT_EQ(empty(5 * mebi), verdict::due) << "its first crest is what it was given";
}

TEST(preload_peak_unwatched, is_told_once) {
  peak_watch watch;
  byte_drift mine{};
  watch.start(false, 0);
  EXPECT_FALSE(mine.grow(1));
  watch.tell(mine);
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(mine.grow(std::int64_t{1} << 47U));
  for (int i = 0; i < 2000; ++i) ASSERT_TRUE(mine.shrink(std::int64_t{1} << 47U));
  EXPECT_EQ(watch.highest(), 0);
  EXPECT_EQ(watch.judge(0), verdict::none);
}

}  // namespace
}  // namespace espalier::preload
