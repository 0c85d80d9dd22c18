// Claims of the study malloc-speed, judged over readings of which it is known what they say, and its charts.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "apps/judged.hpp"
#include "apps/studies/malloc_speed/claims.hpp"

namespace espalier::app::malloc_speed {
namespace {

using namespace ::testing;

/// Two benchmarks, of which index-aware takes so many times mimalloc's time, and so many times jemalloc's memory.
cost_readings with(double one, double other, std::uint64_t peak_kib = 100) {
  cost_readings all;
  for (const char* const benchmark : {"larson", "xmalloc"}) {
    all.add(benchmark, "glibc", {{30, 30, 30}, 90});
    all.add(benchmark, "jemalloc", {{12, 12, 12}, 100});
    all.add(benchmark, "mimalloc", {{10, 10, 10}, 120});
  }
  all.add("larson", "index-aware", {{10 * one, 10 * one, 10 * one}, 100});
  all.add("xmalloc", "index-aware", {{10 * other, 10 * other, 10 * other}, peak_kib});
  return all;
}

std::vector<agreement> verdicts(const cost_readings& measured) { return app::verdicts(judge(measured)); }

TEST(malloc_speed_study, is_a_matter_of_the_geometric_mean_and_of_each_benchmark_s_memory) {
  EXPECT_EQ(verdicts(with(1, 1)), (judged_as{agrees, agrees, agrees}));
  EXPECT_EQ(verdicts(with(2, 0.6)), (judged_as{agrees, agrees, agrees})) << "1.095";
  EXPECT_EQ(verdicts(with(2, 0.7)), (judged_as{differs, agrees, agrees})) << "1.18";
  EXPECT_EQ(verdicts(with(3, 3)), (judged_as{differs, differs, agrees})) << "as fast as glibc is not faster";
  const auto said = judge(with(2, 0.6)).front().ours.sentence;
  EXPECT_THAT(said, HasSubstr("1.10 x the time of mimalloc"));
  EXPECT_THAT(said, HasSubstr("at most 2.00 x (larson)"));
  EXPECT_EQ(verdicts(with(1, 1, 130)), (judged_as{agrees, agrees, agrees}));
  EXPECT_EQ(verdicts(with(1, 1, 131)), (judged_as{agrees, agrees, differs}));
  EXPECT_THAT(judge(with(1, 1, 131)).back().ours.sentence,
              HasSubstr("1.00 x with larson, 1.31 x with xmalloc"));
}

TEST(malloc_speed_study, a_ratio_is_the_median_of_those_of_the_rounds) {
  cost_readings all;
  // What slows the machine for a round slows both.
  all.add("larson", "glibc", {{10, 100, 10}, 50});
  all.add("larson", "index-aware", {{5, 50, 20}, 60});
  EXPECT_EQ(all.ratio("larson", "index-aware", "glibc"), 0.5);
  EXPECT_EQ(all.ratio("larson", "glibc", "index-aware"), 2.0);
  EXPECT_EQ(all.memory_ratio("larson", "index-aware", "glibc"), 1.2);
  all.add("g++", "glibc", {{1}, 10});
  EXPECT_EQ(all.mean(&cost_readings::ratio, "index-aware", "glibc"), std::nullopt)
      << "a benchmark is missing";
  all.add("g++", "index-aware", {{2}, 10});
  EXPECT_NEAR(all.mean(&cost_readings::ratio, "index-aware", "glibc").value_or(0), 1.0, 1e-9);
  EXPECT_EQ(all.benchmarks(), (texts{"larson", "g++"}));
  EXPECT_EQ(all.mallocs(), (texts{"glibc", "index-aware"}));
}

TEST(malloc_speed_study, what_was_not_measured_is_not_judged) {
  EXPECT_EQ(verdicts(cost_readings{}), (judged_as{unknown, unknown, unknown}));
  cost_readings all;
  all.add("larson", "glibc", {{10}, 50});
  all.add("larson", "index-aware", {{5}, 60});
  EXPECT_EQ(verdicts(all), (judged_as{unknown, agrees, unknown}));
  EXPECT_THAT(judge(all).front().ours.sentence, HasSubstr("mimalloc or index-aware was not measured"));
}

TEST(malloc_speed_study, memory_has_a_mean_where_none_is_missing) {
  cost_readings all;
  all.add("larson", "glibc", {{1}, 100});
  all.add("larson", "index-aware", {{1}, 200});
  EXPECT_NEAR(all.mean(&cost_readings::memory_ratio, "index-aware", "glibc").value_or(0), 2, 1e-9);
  all.add("g++", "glibc", {{1}, 100});
  EXPECT_EQ(all.mean(&cost_readings::memory_ratio, "index-aware", "glibc"), std::nullopt);
  all.add("g++", "index-aware", {{1}, 50});
  EXPECT_NEAR(all.mean(&cost_readings::memory_ratio, "index-aware", "glibc").value_or(0), 1, 1e-9);
}

TEST(malloc_speed_figures, have_the_claim_about_each) {
  const cost_readings measured = with(2, 0.6);
  const auto figures = figures_of(measured, {{"tcmalloc", "it is not here"}});
  const auto claims = judge(measured);
  ASSERT_EQ(figures.size(), 4U);
  const char* const ids[] = {"time-over-mimalloc", "time-over-glibc", "memory-over-jemalloc"};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(figures[i].id, ids[i]);
    ASSERT_EQ(figures[i].findings.size(), 1U);
    EXPECT_EQ(figures[i].findings[0].claim, claims[i].claim);
    EXPECT_FALSE(figures[i].findings[0].of_paper);
    ASSERT_EQ(figures[i].missing.size(), 1U);
    EXPECT_EQ(figures[i].charts.size(), 3U) << "the mean, larson and xmalloc";
  }
  EXPECT_TRUE(figures[3].findings.empty());
}

double limit_of(const chart& c) { return c.limit.value().y; }

/// "index-aware 1.10" and so on.
std::vector<std::string> shown(const chart& c) {
  std::vector<std::string> all;
  all.reserve(c.bars.size());
  for (const chart_bar& bar : c.bars) {
    char value[64];
    std::snprintf(value, sizeof value, " %.2f%s", bar.value, bar.peer ? " peer" : "");
    all.push_back(bar.name + value);
  }
  return all;
}

TEST(malloc_speed_figures, bars_are_ratios_and_their_means) {
  const auto figures = figures_of(with(2, 0.6), {});
  EXPECT_EQ(shown(figures[0].charts[0]),
            (texts{"glibc 3.00 peer", "jemalloc 1.20 peer", "mimalloc 1.00 peer", "index-aware 1.10"}));
  EXPECT_EQ(limit_of(figures[0].charts[0]), most_time);
  EXPECT_EQ(figures[0].charts[1].title, "larson");
  EXPECT_EQ(shown(figures[0].charts[1]).back(), "index-aware 2.00");
  EXPECT_EQ(shown(figures[1].charts[2]).back(), "index-aware 0.20");
  EXPECT_EQ(limit_of(figures[1].charts[0]), 1);
  EXPECT_EQ(shown(figures[2].charts[1]),
            (texts{"glibc 0.90 peer", "jemalloc 1.00 peer", "mimalloc 1.20 peer", "index-aware 1.00"}));
  EXPECT_FALSE(figures[2].charts[0].limit) << "memory is asked of each benchmark";
  EXPECT_EQ(limit_of(figures[2].charts[1]), most_memory);
}

TEST(malloc_speed_figures, whiskers_are_those_of_rounds) {
  cost_readings all;
  all.add("larson", "glibc", {{10, 10, 10}, 50});
  all.add("larson", "index-aware", {{5, 9, 6}, 60});
  const auto figures = figures_of(all, {});
  const chart_bar& bar = figures[1].charts[1].bars[1];
  EXPECT_EQ(bar.value, 0.6);
  EXPECT_EQ(bar.least, 0.5);
  EXPECT_EQ(bar.most, 0.9);
  EXPECT_EQ(figures[1].charts[0].bars[1].least, std::nullopt) << "a mean has no rounds";
  // Nothing to be held against.
  EXPECT_TRUE(figures[0].charts.empty());
  EXPECT_TRUE(figures[2].charts.empty());
  EXPECT_EQ(figures[0].findings[0].ours.verdict, unknown);
  all.add("larson", "index-aware", {{5}, 60});
  EXPECT_EQ(figures_of(all, {})[1].charts[1].bars[1].least, std::nullopt) << "one round";
}

TEST(malloc_speed_figures, classes_cost_what_their_tables_say) {
  EXPECT_EQ(index_aware_bytes(1), 16);
  EXPECT_EQ(index_aware_bytes(48), 48);
  EXPECT_EQ(index_aware_bytes(49), 64);
  EXPECT_EQ(index_aware_bytes(65), 128 + 64.0 / 32) << "two lines, and one left out after 32 blocks";
  EXPECT_EQ(index_aware_bytes(512), 9 * 64);
  const charted_figure classes = figures_of({}, {}).back();
  ASSERT_EQ(classes.charts.size(), 4U);
  // As preload/README.md has them.
  EXPECT_EQ(shown(classes.charts[1]), (texts{"glibc 1.12 peer", "jemalloc 1.09 peer", "index-aware 1.21"}));
  EXPECT_EQ(shown(classes.charts[2]), (texts{"glibc 1.03 peer", "jemalloc 1.09 peer", "index-aware 1.10"}));
  EXPECT_EQ(shown(classes.charts[3]), (texts{"glibc 1.01 peer", "jemalloc 1.08 peer", "index-aware 1.03"}));
  const chart& curves = classes.charts.front();
  ASSERT_EQ(curves.curves.size(), 3U);
  for (const chart_curve& curve : curves.curves) {
    EXPECT_TRUE(std::ranges::is_sorted(curve.points)) << curve.name;
    for (const auto& [asked, held] : curve.points) EXPECT_GE(held, 1) << curve.name << " at " << asked;
  }
}

}  // namespace
}  // namespace espalier::app::malloc_speed
