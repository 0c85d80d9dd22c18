// Which blocks are recorded, and when a peak is.

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>

#include "preload/recording/peak_watch.hpp"
#include "preload/recording/settings.hpp"
#include "support/on_threads.hpp"

namespace espalier::preload {
namespace {

constexpr std::uint64_t tries = 100'000;

/// Share of blocks taken, of one size and at addresses 32 bytes apart.
double share(const sampling& sample, std::uint64_t bytes) {
  measure::splitmix64 random(42);
  std::uint64_t taken = 0;
  for (std::uint64_t i = 0; i < tries; ++i)
    taken += sample.takes(0x5555'0000'0000 + 32 * i, bytes, random.next()) ? 1 : 0;
  return static_cast<double>(taken) / tries;
}

/// Five standard deviations of a share of independent choices.
double tolerance(double p) { return 5 * std::sqrt(p * (1 - p) / tries); }

TEST(preload_sampling, of_all_takes_all) {
  EXPECT_EQ(share({}, 1), 1);
  EXPECT_FALSE(sampling{}.needs_chance());
}

TEST(preload_sampling, of_blocks_does_not_look_at_sizes) {
  const sampling sample{sampling::kind::blocks, 50};
  EXPECT_TRUE(sample.needs_chance());
  for (const std::uint64_t bytes : {0U, 8U, 1U << 30U})
    EXPECT_NEAR(share(sample, bytes), 0.02, tolerance(0.02)) << bytes;
  EXPECT_EQ(share({sampling::kind::blocks, 1}, 8), 1);
}

TEST(preload_sampling, of_bytes_takes_each_byte_with_the_same_chance) {
  const sampling sample{sampling::kind::bytes, 1000};
  EXPECT_NEAR(share(sample, 100), 0.1, tolerance(0.1));
  EXPECT_NEAR(share(sample, 500), 0.5, tolerance(0.5));
  EXPECT_EQ(share(sample, 1000), 1) << "a block that is as large is always taken";
  EXPECT_NEAR(share(sample, 0), 0.001, tolerance(0.001)) << "a block of no bytes counts as one";
}

TEST(preload_sampling, of_regions_takes_neighbours_together) {
  const sampling sample{sampling::kind::regions, 4};
  EXPECT_FALSE(sample.needs_chance());
  std::uint64_t regions = 0;
  constexpr std::uint64_t region = std::uint64_t{1} << sampling::region_bits;
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    const std::uintptr_t begin = 0x7000'0000'0000 + i * region;
    const bool whole = sample.may_hold(begin);
    regions += whole ? 1 : 0;
    for (const std::uintptr_t at : {begin, begin + 4096, begin + region - 16}) {
      ASSERT_EQ(sample.may_hold(at), whole);
      ASSERT_EQ(sample.takes(at, 64, i), whole) << "what is taken is what a free must look for";
    }
  }
  EXPECT_NEAR(static_cast<double>(regions) / 20'000, 0.25, 0.02);
}

TEST(preload_sampling, lets_frees_of_other_samples_look_everywhere) {
  EXPECT_TRUE((sampling{sampling::kind::blocks, 1000}.may_hold(64)));
  EXPECT_TRUE((sampling{sampling::kind::bytes, 1000}.may_hold(64)));
}

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
