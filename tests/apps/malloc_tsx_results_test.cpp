#include "apps/studies/malloc_tsx/results.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "apps/studies/malloc_tsx/claims.hpp"

namespace espalier::simulate {
namespace {

using app::agreement;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::uint64_t sections = 1000;

malloc_tsx_measurement measured(std::uint64_t cycles, std::uint64_t committed, std::uint64_t most = 2) {
  malloc_tsx_measurement m;
  m.operations = sections;
  m.cycles = cycles;
  m.ghz = 2;
  m.transactions.begun = sections;
  m.transactions.committed = committed;
  m.transactions.by_reason[static_cast<std::size_t>(sim::abort_reason::capacity)] =
      3 * (sections - committed);
  m.ends.under_lock = sections - committed;
  m.loads = {0, most, 1};
  return m;
}

configuration ring(std::size_t bytes, allocation from, section_policy policy, std::uint64_t nodes = 128) {
  return {benchmark::ring, nodes, bytes, from, policy};
}

TEST(malloc_tsx_results, readings_are_of_one_program_and_number_of_nodes) {
  malloc_tsx_results results;
  results.add(ring(496, allocation::glibc, section_policy::tle), measured(2000, 750, 16));
  results.add(ring(496, allocation::size_classes, section_policy::tle_learnt), measured(1000, 0));
  results.add(ring(512, allocation::random, section_policy::tts), measured(4000, 0, 7));
  results.add(ring(512, allocation::random, section_policy::tts, 512), measured(4000, 0, 9));
  results.add({benchmark::tree, 128, 512, allocation::glibc, section_policy::tle}, measured(1, 1));
  const auto readings = results.readings(benchmark::ring, 128);
  EXPECT_EQ(readings.all().size(), 3U);

  const auto* elided = readings.find({"glibc-model", "tle", 496});
  ASSERT_NE(elided, nullptr);
  EXPECT_THAT(elided->rounds, ElementsAre(sections / 2000.0 * 2e9));
  EXPECT_EQ(elided->largest_load, 16U);
  EXPECT_EQ(elided->committed, 0.75);
  EXPECT_EQ(elided->capacity_aborts, 0.75);

  const auto* learnt = readings.find({"size-classes-model", "tle-learnt", 496});
  ASSERT_NE(learnt, nullptr);
  EXPECT_EQ(learnt->committed, 0.0);

  const auto* locked = readings.find({"random", "tts", 512});
  ASSERT_NE(locked, nullptr);
  EXPECT_EQ(locked->largest_load, 7U);
  EXPECT_EQ(locked->committed, std::nullopt) << "nothing is elided under a plain lock";
  EXPECT_EQ(locked->capacity_aborts, std::nullopt);
}

/// A ring at a bad size (496) and at a good one, with so many misses a section.
app::judgement misses_of(std::uint64_t bad, std::uint64_t good) {
  malloc_tsx_results results;
  for (const auto& [bytes, count] : {std::pair<std::size_t, std::uint64_t>{496, bad}, {512, good}}) {
    malloc_tsx_measurement m = measured(1000, 0);
    m.total.accesses = 256 * sections;
    m.total.l1_hits = (256 - count) * sections;
    results.add(ring(bytes, allocation::glibc, section_policy::tts), m);
    // What others miss is not asked.
    m.total.l1_hits = 0;
    results.add(ring(bytes, allocation::glibc, section_policy::tle), m);
    results.add(ring(bytes, allocation::random, section_policy::tts), m);
    results.add(ring(bytes, allocation::glibc, section_policy::tts, 512), m);
  }
  return judge_misses(results).ours;
}

TEST(malloc_tsx_results, slow_sizes_are_those_that_miss) {
  EXPECT_EQ(misses_of(128, 0).verdict, agreement::agrees);
  EXPECT_THAT(misses_of(128, 16).sentence,
              HasSubstr("1.00 L1 misses a node with glibc-model at multiples of 512, 0.12"));
  EXPECT_EQ(misses_of(64, 16).verdict, agreement::agrees);
  EXPECT_EQ(misses_of(63, 0).verdict, agreement::differs) << "less than one in two";
  EXPECT_EQ(misses_of(64, 17).verdict, agreement::differs) << "more than a quarter of that elsewhere";
  // They are held against other sizes.
  for (const std::size_t bytes : {496U, 512U}) {
    malloc_tsx_results results;
    results.add(ring(bytes, allocation::glibc, section_policy::tts), measured(1000, 0));
    EXPECT_EQ(judge_misses(results).ours.verdict, agreement::not_measurable) << bytes;
  }
  EXPECT_TRUE(judge_misses({}).of_paper);
}

TEST(malloc_tsx_results, misses_are_those_of_a_node_or_of_an_operation) {
  malloc_tsx_measurement m = measured(1, 0);
  m.total.accesses = 700 * sections;
  m.total.l1_hits = 60 * sections;
  EXPECT_EQ(misses(ring(64, allocation::glibc, section_policy::tts), m), 5);
  EXPECT_EQ(misses({benchmark::tree, 128, 64, allocation::glibc, section_policy::tts}, m), 640);
}

}  // namespace
}  // namespace espalier::simulate
