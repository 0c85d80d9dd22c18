#include "apps/simulate/malloc_tsx_findings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <stdexcept>
#include <string>

namespace espalier::simulate {
namespace {

using app::agreement;
using testing::HasSubstr;

constexpr unsigned ways = 8;
constexpr std::uint64_t sections = 1000;

malloc_tsx_measurement measured(std::uint64_t cycles, std::uint64_t committed, std::uint64_t most = 2) {
  malloc_tsx_measurement m;
  m.sections = sections;
  m.threads = 4;
  m.cycles = cycles;
  m.transactions.begun = sections;
  m.transactions.committed = committed;
  m.ends.under_lock = sections - committed;
  m.load.most = most;
  m.load.indices = {{most, 64}};
  return m;
}

configuration ring(std::size_t bytes, allocation from, section_policy policy, std::size_t nodes = 128) {
  return {benchmark::ring, nodes, bytes, from, policy};
}
configuration tree(std::size_t bytes, allocation from, section_policy policy) {
  return {benchmark::tree, 1000, bytes, from, policy};
}

const malloc_tsx_finding& about(const std::vector<malloc_tsx_finding>& all, std::string_view words) {
  for (const malloc_tsx_finding& f : all) {
    if (f.paper.find(words) != std::string::npos) return f;
  }
  throw std::invalid_argument("no finding says " + std::string(words));
}

TEST(capacity_law, counts_what_holds_and_leaves_full_indices_out) {
  malloc_tsx_results results(ways, 1);
  const auto add = [&](std::size_t bytes, std::uint64_t most, std::uint64_t committed) {
    results.add(ring(bytes, allocation::glibc, section_policy::tle), measured(1000, committed, most));
  };
  add(64, 9, 0);
  add(128, 16, 1);  // one too many
  add(192, 7, sections);
  add(256, 7, 900);  // not more than nine in ten
  add(320, 8, sections);
  add(384, 8, 0);
  // What is not attempted each time says nothing; nor do trees.
  results.add(ring(64, allocation::glibc, section_policy::tts), measured(1000, 0, 1));
  results.add(ring(64, allocation::glibc, section_policy::tle_learnt), measured(1000, 0, 1));
  results.add(tree(64, allocation::glibc, section_policy::tle), measured(1000, 1000, 99));
  const capacity_law law = law_of(results);
  EXPECT_EQ(law.overloaded, 2U);
  EXPECT_EQ(law.overloaded_hold, 1U);
  EXPECT_EQ(law.roomy, 2U);
  EXPECT_EQ(law.roomy_hold, 1U);
  EXPECT_EQ(law.full, 2U);
  EXPECT_EQ(law.full_commit, 1U);
  EXPECT_EQ(law.configurations(), 4U);
  EXPECT_EQ(law.holds(), 2U);
}

/// What the paper shows at a bad size (496) and at a good one (512), as far as its figures tell.
malloc_tsx_results as_in_the_paper() {
  malloc_tsx_results results(ways, 2);
  for (const std::size_t bytes : std::initializer_list<std::size_t>{496, 512, 2032}) {
    const bool bad = bytes != 512;
    for (std::size_t a = 0; a < allocations; ++a) {
      const auto from = static_cast<allocation>(a);
      const bool hit = bad && (from == allocation::glibc || from == allocation::size_classes);
      const bool unlucky = !bad && from == allocation::random;
      malloc_tsx_measurement tts = measured(hit ? 3000 : 1000, 0);
      tts.total.accesses = 256 * sections;
      tts.total.l1_hits = hit ? 128 * sections : 256 * sections;
      results.add(ring(bytes, from, section_policy::tts), tts);
      results.add(ring(bytes, from, section_policy::tle),
                  measured(hit       ? 5000
                           : unlucky ? 1200
                                     : 1020,
                           hit || unlucky ? 0 : sections, hit ? 16 : 2));
      results.add(ring(bytes, from, section_policy::tle_learnt), measured(hit ? 3010 : 1020, 0));
      malloc_tsx_measurement elided = measured(hit ? 1500 : 300, hit ? 800 : sections);
      if (hit) elided.transactions.by_reason[static_cast<std::size_t>(sim::abort_reason::capacity)] = 200;
      results.add(tree(bytes, from, section_policy::tle), elided);
      results.add(tree(bytes, from, section_policy::tts), measured(hit ? 2000 : 1000, 0));
    }
  }
  return results;
}

TEST(malloc_tsx_findings, agree_with_numbers_like_the_papers) {
  for (const malloc_tsx_finding& f : findings_of(as_in_the_paper()))
    EXPECT_EQ(f.ours.verdict, agreement::agrees) << f.paper << ": " << f.ours.sentence;
}

TEST(malloc_tsx_findings, say_the_numbers) {
  const auto all = findings_of(as_in_the_paper());
  EXPECT_THAT(about(all, "slower than over index-aware").ours.sentence, HasSubstr("0.33 times"));
  EXPECT_THAT(about(all, "many L1 misses").ours.sentence, HasSubstr("1.00 L1 misses a node"));
  EXPECT_THAT(about(all, "futile").ours.sentence, HasSubstr("0.60 times the throughput of the lock"));
  EXPECT_THAT(about(all, "come between").ours.sentence, HasSubstr("at 1 sizes"));
  EXPECT_THAT(about(all, "capacity").ours.sentence, HasSubstr("0.2000 and 20.00 % at 496"));
}

TEST(malloc_tsx_findings, differ_where_everything_is_alike) {
  malloc_tsx_results results(ways, 2);
  for (const std::size_t bytes : std::initializer_list<std::size_t>{496, 512, 2032}) {
    for (std::size_t a = 0; a < allocations; ++a) {
      for (const auto policy : {section_policy::tts, section_policy::tle, section_policy::tle_learnt}) {
        results.add(ring(bytes, static_cast<allocation>(a), policy), measured(1000, sections / 2));
        results.add(tree(bytes, static_cast<allocation>(a), policy), measured(1000, sections));
      }
    }
  }
  const auto all = findings_of(results);
  EXPECT_EQ(all.size(), 10U);
  for (const malloc_tsx_finding& f : all)
    EXPECT_EQ(f.ours.verdict, agreement::differs) << f.paper << ": " << f.ours.sentence;
}

TEST(malloc_tsx_findings, need_bad_sizes_and_threads) {
  malloc_tsx_results results(ways, 2);
  malloc_tsx_measurement alone = measured(1000, sections);
  alone.threads = 1;
  for (std::size_t a = 0; a < allocations; ++a) {
    for (const auto policy : {section_policy::tts, section_policy::tle, section_policy::tle_learnt}) {
      results.add(ring(512, static_cast<allocation>(a), policy), alone);
      results.add(tree(512, static_cast<allocation>(a), policy), alone);
    }
  }
  const auto all = findings_of(results);
  for (const std::string_view words :
       {"slower than over index-aware", "many L1 misses", "futile", "come between", "4 threads",
        "bad for the ring", "capacity", "2000 bytes"})
    EXPECT_EQ(about(all, words).ours.verdict, agreement::not_measurable) << words;
  EXPECT_EQ(about(all, "no bad sizes").ours.verdict, agreement::agrees);
  EXPECT_TRUE(findings_of(malloc_tsx_results(ways, 2)).empty());
}

}  // namespace
}  // namespace espalier::simulate
