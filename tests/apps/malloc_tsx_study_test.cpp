#include "apps/common/malloc_tsx_study.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace espalier::app::malloc_tsx {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr unsigned ways = 12;

/// Rounds of one speed; where sections are elided, how many commit.
placed_reading steady(double speed, std::uint64_t load, std::optional<double> committed = {}) {
  return {{speed, speed, speed}, load, committed, committed ? std::optional(1 - *committed) : std::nullopt};
}

/// As the paper has it, at a bad and at a good size.
placed_readings as_published() {
  placed_readings all;
  for (const std::uint64_t size : {496U, 560U}) {
    const bool bad = size == 496;
    all.add({"glibc", "tts", size}, steady(bad ? 30 : 100, bad ? 16 : 3));
    all.add({"glibc", "tle", size}, steady(bad ? 20 : 98, bad ? 16 : 3, bad ? 0.0 : 0.999));
    all.add({"random", "tts", size}, steady(95, 7));
    all.add({"random", "tle", size}, steady(94, 7, 0.99));
    all.add({"index-aware", "tts", size}, steady(100, 2));
    all.add({"index-aware", "tle", size}, steady(98, 2, 0.999));
  }
  return all;
}

std::vector<agreement> verdicts(const std::vector<curve_finding>& findings) {
  std::vector<agreement> all;
  for (const curve_finding& f : findings) all.push_back(f.ours.verdict);
  return all;
}

constexpr auto agrees = agreement::agrees;
constexpr auto differs = agreement::differs;
constexpr auto unknown = agreement::not_measurable;

TEST(malloc_tsx_study, steps_through_the_sizes_that_glibc_makes_bad) {
  const auto sizes = node_sizes();
  EXPECT_THAT(sizes, SizeIs(128));
  EXPECT_EQ(sizes.front(), 48U);
  EXPECT_EQ(sizes.back(), 4096U);
  EXPECT_TRUE(std::ranges::is_sorted(sizes));
  for (const std::uint64_t size : {496U, 512U, 1008U, 2032U, 4080U})
    EXPECT_NE(std::ranges::find(sizes, size), sizes.end()) << size;
}

TEST(malloc_tsx_study, what_the_paper_has_agrees) {
  EXPECT_THAT(verdicts(judge_ring(as_published(), 128, ways)), ElementsAre(agrees, agrees, agrees, agrees));
}

TEST(malloc_tsx_study, a_size_is_bad_where_an_index_has_more_blocks_than_ways) {
  EXPECT_THAT(as_published().overloaded("glibc", 12), ElementsAre(496));
  EXPECT_THAT(as_published().overloaded("glibc", 15), ElementsAre(496));
  EXPECT_THAT(as_published().overloaded("glibc", 16), ElementsAre());
}

TEST(malloc_tsx_study, each_claim_can_fail) {
  auto same_speed = as_published();
  same_speed.add({"glibc", "tts", 496}, steady(99, 16));
  EXPECT_EQ(verdicts(judge_ring(same_speed, 128, ways))[0], differs);
  auto elision_helps = as_published();
  elision_helps.add({"glibc", "tle", 496}, steady(31, 16, 0.0));
  EXPECT_EQ(verdicts(judge_ring(elision_helps, 128, ways))[1], differs);
  auto ours_is_hit = as_published();
  ours_is_hit.add({"index-aware", "tts", 560}, steady(100, 13));
  EXPECT_EQ(verdicts(judge_ring(ours_is_hit, 128, ways))[2], differs);
  auto ours_aborts = as_published();
  ours_aborts.add({"index-aware", "tle", 560}, steady(98, 2, 0.97));
  const auto findings = judge_ring(ours_aborts, 128, ways);
  EXPECT_EQ(verdicts(findings)[2], differs);
  EXPECT_THAT(findings[2].ours.sentence, HasSubstr("commit: 560"));
  auto chance_is_worst = as_published();
  for (const std::uint64_t size : {496U, 560U}) chance_is_worst.add({"random", "tts", size}, steady(90, 14));
  EXPECT_EQ(verdicts(judge_ring(chance_is_worst, 128, ways))[3], differs);
}

TEST(malloc_tsx_study, a_full_cache_may_lose_a_tenth_of_the_sections) {
  auto full = as_published();
  full.add({"index-aware", "tle", 560}, steady(98, ways, 0.93));
  EXPECT_EQ(verdicts(judge_ring(full, 128, ways))[2], agrees);
  full.add({"index-aware", "tle", 560}, steady(98, ways, 0.89));
  EXPECT_EQ(verdicts(judge_ring(full, 128, ways))[2], differs);
}

TEST(malloc_tsx_study, what_was_not_measured_is_not_judged) {
  placed_readings no_transactions;
  no_transactions.add({"glibc", "tts", 496}, steady(30, 16));
  no_transactions.add({"index-aware", "tts", 496}, steady(100, 2));
  const auto findings = judge_ring(no_transactions, 128, ways);
  EXPECT_THAT(verdicts(findings), ElementsAre(agrees, unknown, agrees, unknown));
  EXPECT_THAT(findings[1].ours.sentence, HasSubstr("no transactions"));
  EXPECT_THAT(verdicts(judge_ring({}, 128, ways)), ElementsAre(unknown, unknown, unknown, unknown));
  EXPECT_THAT(verdicts(judge_tree(no_transactions, no_transactions, 2, ways)), ElementsAre(unknown, unknown));
  EXPECT_EQ(judge_fresh(no_transactions).ours.verdict, unknown);
  EXPECT_EQ(judge_law({&no_transactions}, ways).ours.verdict, unknown);
}

TEST(malloc_tsx_study, other_rings_are_not_the_papers) {
  for (const curve_finding& f : judge_ring(as_published(), 512, ways))
    EXPECT_EQ(f.source(), "Beyond the paper");
  for (const curve_finding& f : judge_ring(as_published(), 128, ways)) EXPECT_EQ(f.source(), "The paper");
}

TEST(malloc_tsx_study, the_tree_is_judged_by_speed_and_by_aborts_at_the_bad_sizes) {
  placed_readings tree;
  const auto add = [&](const char* malloc, double tle_speed, double aborts) {
    tree.add({malloc, "tts", 496}, {{100}, 900, {}, {}});
    tree.add({malloc, "tle", 496}, {{tle_speed}, 900, 0.9, aborts});
  };
  add("glibc", 110, 0.03);
  add("index-aware", 140, 0.0001);
  EXPECT_THAT(verdicts(judge_tree(tree, as_published(), 2, ways)), ElementsAre(agrees, agrees));
  EXPECT_THAT(verdicts(judge_tree(tree, as_published(), 1, ways)), ElementsAre(agrees))
      << "one thread gains nothing";
  add("index-aware", 95, 0.02);
  EXPECT_THAT(verdicts(judge_tree(tree, as_published(), 2, ways)), ElementsAre(differs, differs));
}

TEST(malloc_tsx_study, the_law_may_fail_once_in_a_hundred) {
  placed_readings ring;
  for (std::uint64_t i = 0; i < 99; ++i)
    ring.add({"glibc", "tle", i}, steady(1, i % 2 == 0 ? 13 : 11, i % 2 == 0 ? 0.0 : 0.95));
  ring.add({"index-aware", "tle", 1}, steady(1, 12, 0.5));
  EXPECT_EQ(judge_law({&ring}, ways).ours.verdict, agrees) << "as many as ways is neither";
  ring.add({"glibc", "tle", 100}, steady(1, 13, 0.02));
  EXPECT_EQ(judge_law({&ring}, ways).ours.verdict, agrees);
  ring.add({"glibc", "tle", 101}, steady(1, 11, 0.5));
  EXPECT_EQ(judge_law({&ring}, ways).ours.verdict, differs);
}

TEST(malloc_tsx_study, fresh_blocks_are_to_commit_nineteen_times_in_twenty) {
  placed_readings fresh;
  fresh.add({"glibc", "tle", 1008}, steady(1, 9, 0.7));
  EXPECT_EQ(judge_fresh(fresh).ours.verdict, unknown);
  fresh.add({"index-aware", "tle", 1008}, steady(1, 9, 0.96));
  EXPECT_EQ(judge_fresh(fresh).ours.verdict, agrees);
  fresh.add({"index-aware", "tle", 1008}, steady(1, 9, 0.94));
  EXPECT_EQ(judge_fresh(fresh).ours.verdict, differs);
}

TEST(malloc_tsx_study, ratios_are_of_rounds) {
  placed_readings r;
  r.add({"a", "tts", 64}, {{10, 20, 90}, 1, {}, {}});
  r.add({"b", "tts", 64}, {{10, 10, 10}, 1, {}, {}});
  EXPECT_EQ(r.ratio({"a", "tts", 64}, {"b", "tts", 64}), 2.0);
  EXPECT_EQ(r.ratio({"a", "tts", 64}, {"c", "tts", 64}), std::nullopt);
}

}  // namespace
}  // namespace espalier::app::malloc_tsx
