#include "apps/common/malloc_speed_study.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace espalier::app::malloc_speed {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Optional;

constexpr auto agrees = agreement::agrees;
constexpr auto differs = agreement::differs;
constexpr auto unknown = agreement::not_measurable;

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

std::vector<agreement> verdicts(const cost_readings& measured) {
  std::vector<agreement> all;
  for (const judged_claim& f : judge(measured)) all.push_back(f.ours.verdict);
  return all;
}

TEST(malloc_speed_study, is_a_matter_of_the_geometric_mean) {
  EXPECT_THAT(verdicts(with(1, 1)), ElementsAre(agrees, agrees, agrees));
  EXPECT_THAT(verdicts(with(2, 0.6)), ElementsAre(agrees, agrees, agrees)) << "1.095";
  EXPECT_THAT(verdicts(with(2, 0.7)), ElementsAre(differs, agrees, agrees)) << "1.18";
  EXPECT_THAT(verdicts(with(3, 3)), ElementsAre(differs, differs, agrees))
      << "as fast as glibc is not faster";
  const auto said = judge(with(2, 0.6)).front().ours.sentence;
  EXPECT_THAT(said, HasSubstr("1.10 x the time of mimalloc"));
  EXPECT_THAT(said, HasSubstr("at most 2.00 x (larson)"));
}

TEST(malloc_speed_study, memory_is_asked_of_each_benchmark) {
  EXPECT_THAT(verdicts(with(1, 1, 130)), ElementsAre(agrees, agrees, agrees));
  EXPECT_THAT(verdicts(with(1, 1, 131)), ElementsAre(agrees, agrees, differs));
  EXPECT_THAT(judge(with(1, 1, 131)).back().ours.sentence,
              HasSubstr("1.00 x with larson, 1.31 x with xmalloc"));
}

TEST(malloc_speed_study, a_ratio_is_the_median_of_those_of_the_rounds) {
  cost_readings all;
  // What slows the machine for a round slows both.
  all.add("larson", "glibc", {{10, 100, 10}, 50});
  all.add("larson", "index-aware", {{5, 50, 20}, 60});
  EXPECT_THAT(all.ratio("larson", "index-aware", "glibc"), Optional(0.5));
  EXPECT_THAT(all.ratio("larson", "glibc", "index-aware"), Optional(2.0));
  EXPECT_THAT(all.memory_ratio("larson", "index-aware", "glibc"), Optional(1.2));
  all.add("g++", "glibc", {{1}, 10});
  EXPECT_EQ(all.mean_ratio("index-aware", "glibc"), std::nullopt) << "a benchmark is missing";
  all.add("g++", "index-aware", {{2}, 10});
  EXPECT_THAT(all.mean_ratio("index-aware", "glibc"), Optional(DoubleNear(1.0, 1e-9)));
  EXPECT_THAT(all.benchmarks(), ElementsAre("larson", "g++"));
  EXPECT_THAT(all.mallocs(), ElementsAre("glibc", "index-aware"));
}

TEST(malloc_speed_study, what_was_not_measured_is_not_judged) {
  EXPECT_THAT(verdicts(cost_readings{}), ElementsAre(unknown, unknown, unknown));
  cost_readings all;
  all.add("larson", "glibc", {{10}, 50});
  all.add("larson", "index-aware", {{5}, 60});
  EXPECT_THAT(verdicts(all), ElementsAre(unknown, agrees, unknown));
  EXPECT_THAT(judge(all).front().ours.sentence, HasSubstr("mimalloc or index-aware was not measured"));
}

}  // namespace
}  // namespace espalier::app::malloc_speed
