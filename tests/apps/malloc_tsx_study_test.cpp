// Claims of the study malloc-tsx, judged over readings of which it is known what they say, and its charts.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/judged.hpp"
#include "apps/studies/malloc_tsx/claims.hpp"

namespace espalier::app::malloc_tsx {
namespace {

using namespace ::testing;

constexpr unsigned ways = 12;
const setting here{.ways = ways};

/// Rounds of one speed; where sections are elided, how many commit.
placed_reading steady(double speed, std::uint64_t load, std::optional<double> committed = {}) {
  return {{speed, speed, speed}, load, committed, committed ? std::optional(1 - *committed) : std::nullopt};
}

/// As the paper has it, at a bad size and at two good ones, of which chance is unlucky at one.
placed_readings as_published(const std::string& glibc = "glibc") {
  placed_readings all;
  for (const std::uint64_t size : {496U, 560U, 624U}) {
    const bool bad = size == 496;
    const bool unlucky = size == 624;
    all.add({glibc, "tts", size}, steady(bad ? 30 : 100, bad ? 16 : 3));
    all.add({glibc, "tle", size}, steady(bad ? 20 : 98, bad ? 16 : 3, bad ? 0.0 : 0.999));
    all.add({"random", "tts", size}, steady(95, unlucky ? 13 : 7));
    all.add({"random", "tle", size}, steady(unlucky ? 80 : 94, unlucky ? 13 : 7, unlucky ? 0.0 : 0.99));
    all.add({"index-aware", "tts", size}, steady(100, 2));
    all.add({"index-aware", "tle", size}, steady(98, 2, 0.999));
  }
  return all;
}

/// A tree, likewise: elided sections are three times as fast but at the bad size, where a fifth falls back.
placed_readings tree_as_published() {
  placed_readings all;
  for (const std::uint64_t size : {560U, 2032U}) {
    const bool bad = size == 2032;
    for (const char* const malloc : {"glibc", "index-aware"}) {
      const bool hit = bad && malloc == std::string("glibc");
      all.add({malloc, "tts", size}, steady(hit ? 60 : 100, 1));
      all.add({malloc, "tle", size}, steady(hit ? 90 : 300, 1, hit ? 0.8 : 1.0));
    }
  }
  return all;
}

/// The nth claim of the paper's ring once some readings are others.
judgement changed_ring(std::size_t claim, const std::vector<std::pair<point, placed_reading>>& changes) {
  placed_readings all = as_published();
  for (const auto& [at, r] : changes) all.add(at, r);
  return judge_ring(all, 128, here).at(claim).ours;
}

TEST(malloc_tsx_study, steps_through_the_sizes_that_glibc_makes_bad_and_overloads) {
  const auto sizes = node_sizes();
  EXPECT_EQ(sizes.size(), 128U);
  EXPECT_EQ(sizes.front(), 48U);
  EXPECT_EQ(sizes.back(), 4096U);
  EXPECT_TRUE(std::ranges::is_sorted(sizes));
  for (const std::uint64_t size : {496U, 512U, 1008U, 2032U, 4080U})
    EXPECT_NE(std::ranges::find(sizes, size), sizes.end()) << size;
  EXPECT_EQ(as_published().overloaded("glibc", 12), (sizes_found{496}));
  EXPECT_EQ(as_published().overloaded("glibc", 15), (sizes_found{496}));
  EXPECT_EQ(as_published().overloaded("glibc", 16), (sizes_found{}));
}

TEST(malloc_tsx_study, ratios_are_of_rounds) {
  placed_readings r;
  r.add({"a", "tts", 64}, {{10, 20, 90}, 1, {}, {}});
  r.add({"b", "tts", 64}, {{10, 10, 10}, 1, {}, {}});
  EXPECT_EQ(r.ratio({"a", "tts", 64}, {"b", "tts", 64}), 2.0);
  EXPECT_EQ(r.ratio({"a", "tts", 64}, {"c", "tts", 64}), std::nullopt);
}

TEST(malloc_tsx_claims, what_the_paper_has_agrees) {
  for (const auto& findings : {judge_ring(as_published(), 128, here), judge_tree(tree_as_published(), here),
                               judge_concurrent_tree(tree_as_published(), 4, here)}) {
    for (const judged_claim& f : findings)
      EXPECT_EQ(f.ours.verdict, agrees) << f.claim << ": " << f.ours.sentence;
  }
}

TEST(malloc_tsx_claims, a_model_stands_for_the_malloc_and_is_named) {
  const setting simulated{.ways = ways, .glibc = "glibc-model", .simulated = true};
  const auto findings = judge_ring(as_published("glibc-model"), 128, simulated);
  EXPECT_THAT(verdicts(findings), Each(agrees));
  for (const std::size_t claim : {0U, 1U, 3U})
    EXPECT_THAT(findings[claim].ours.sentence, HasSubstr("glibc-model"));
  // The malloc itself was not measured then.
  EXPECT_EQ(verdicts(judge_ring(as_published("glibc-model"), 128, here)),
            (judged_as{unknown, unknown, agrees, unknown, agrees}));
}

TEST(malloc_tsx_claims, of_the_papers_ring_hold_or_do_not) {
  const point bad{"glibc", "tts", 496};
  const point elided{"glibc", "tle", 496};
  const point aware{"index-aware", "tle", 560};
  const point other_aware{"index-aware", "tle", 624};
  const point lucky{"random", "tle", 624};
  const point random{"random", "tle", 496};
  struct {
    std::size_t claim;
    std::vector<std::pair<point, placed_reading>> changes;
    agreement verdict;
    const char* why;
  } const cases[] = {
      {0, {{bad, steady(90, 16)}, {elided, steady(20, 16, 0.0)}}, agrees, "slow by a tenth, and overloaded"},
      {0, {{bad, steady(92, 16)}, {elided, steady(20, 16, 0.0)}}, differs, "by less"},
      {0, {{bad, steady(30, 12)}, {elided, steady(20, 12, 0.0)}}, differs, "slow for another reason"},
      // Index-aware may be faster there as well.
      {0,
       {{{"glibc", "tts", 560}, steady(25, 3)}, {{"glibc", "tts", 624}, steady(30, 3)}},
       differs,
       "not there alone"},
      {1, {{elided, steady(29, 16, 0.0)}}, agrees, "none commits, and time is lost"},
      {1, {{elided, steady(29.7, 16, 0.0)}}, differs, "within 2 %"},
      {1, {{elided, steady(31, 16, 0.0)}}, differs, "no time is lost"},
      {1, {{elided, steady(20, 16, 0.009)}}, agrees, "nearly none commits"},
      {1, {{elided, steady(20, 16, 0.01)}}, differs, "one in a hundred commits"},
      {2, {{{"index-aware", "tts", 560}, steady(100, 13)}}, differs, "more than ways"},
      {2, {{aware, steady(98, 2, 0.97)}}, differs, "aborts"},
      {3,
       {{lucky, steady(94, 7, 0.99)}, {{"random", "tts", 624}, steady(95, 7)}},
       differs,
       "as good as index-aware"},
      {3, {{random, steady(20.3, 7, 0.0)}}, differs, "no better than glibc"},
      {3, {{random, steady(20.5, 7, 0.0)}}, agrees, "better than glibc"},
      {3, {{random, steady(120, 7, 0.99)}}, differs, "better than index-aware by more than a tenth"},
      {3, {{{"random", "tts", 560}, steady(95, 14)}}, differs, "more bad sizes than glibc"},
      {4, {{aware, steady(99, 2, 1)}, {other_aware, steady(99, 2, 1)}}, agrees, "slightly slower"},
      {4, {{aware, steady(91, 2, 1)}, {other_aware, steady(91, 2, 1)}}, agrees, "slightly slower"},
      {4, {{aware, steady(90, 2, 1)}, {other_aware, steady(90, 2, 1)}}, differs, "more than slightly"},
      {4, {{aware, steady(100, 2, 1)}, {other_aware, steady(100, 2, 1)}}, differs, "not slower"}};
  for (const auto& one : cases)
    EXPECT_EQ(changed_ring(one.claim, one.changes).verdict, one.verdict) << one.claim << ": " << one.why;
  EXPECT_THAT(changed_ring(0, {{bad, steady(30, 12)}, {elided, steady(20, 12, 0.0)}}).sentence,
              HasSubstr("no index has more blocks than ways at 496"));
  EXPECT_THAT(changed_ring(1, {{{"glibc", "tle-learnt", 496}, steady(27, 16, 0.0)}}).sentence,
              HasSubstr("tle is 0.667 x tts on glibc; tle-learnt 0.900 x"));
  EXPECT_THAT(changed_ring(2, {{aware, steady(98, 2, 0.97)}}).sentence, HasSubstr("commit: 560"));
}

TEST(malloc_tsx_claims, a_full_cache_may_lose_a_tenth_of_the_sections_but_in_the_papers_ring) {
  auto full = as_published();
  full.add({"index-aware", "tle", 560}, steady(98, ways, 0.93));
  EXPECT_EQ(judge_ring(full, 512, here)[0].ours.verdict, agrees);
  EXPECT_EQ(judge_ring(full, 128, here)[2].ours.verdict, differs);
  full.add({"index-aware", "tle", 560}, steady(98, ways, 0.89));
  EXPECT_EQ(judge_ring(full, 512, here)[0].ours.verdict, differs);
  // What is not full may not.
  full.add({"index-aware", "tle", 560}, steady(98, ways - 1, 0.93));
  EXPECT_EQ(judge_ring(full, 512, here)[0].ours.verdict, differs);
}

TEST(malloc_tsx_claims, what_was_not_measured_is_not_judged) {
  placed_readings no_transactions;
  for (const std::uint64_t size : {496U, 560U}) {
    no_transactions.add({"glibc", "tts", size}, steady(size == 496 ? 30 : 100, size == 496 ? 16 : 3));
    no_transactions.add({"index-aware", "tts", size}, steady(100, 2));
  }
  const auto findings = judge_ring(no_transactions, 128, here);
  EXPECT_EQ(verdicts(findings), (judged_as{agrees, unknown, agrees, unknown, unknown}));
  EXPECT_THAT(findings[1].ours.sentence, HasSubstr("no transactions"));
  EXPECT_THAT(findings[3].ours.sentence, HasSubstr("random was not measured"));
  EXPECT_THAT(verdicts(judge_ring({}, 128, here)), Each(unknown));
  EXPECT_THAT(verdicts(judge_ring({}, 512, here)), Each(unknown));
  for (const placed_readings& none : {no_transactions, placed_readings{}}) {
    EXPECT_THAT(verdicts(judge_tree(none, here)), Each(unknown));
    EXPECT_THAT(verdicts(judge_concurrent_tree(none, 4, here)), Each(unknown));
    EXPECT_EQ(judge_fresh(none).ours.verdict, unknown);
    EXPECT_EQ(judge_law(law_of({&none}, ways), ways).ours.verdict, unknown);
  }
}

TEST(malloc_tsx_claims, sizes_are_held_against_others) {
  const placed_readings published = as_published();
  for (const std::uint64_t only : {496U, 560U}) {
    placed_readings all;
    for (const auto& [at, r] : published.all()) {
      if (at.size == only) all.add(at, r);
    }
    EXPECT_THAT(judge_ring(all, 128, here)[0].ours.sentence, HasSubstr("no size was measured")) << only;
    EXPECT_EQ(judge_ring(all, 128, here)[0].ours.verdict, unknown) << only;
    if (only == 560) {
      EXPECT_EQ(judge_ring(all, 128, here)[3].ours.verdict, unknown) << "no malloc has a bad index there";
    }
    EXPECT_EQ(judge_tree(all, here)[0].ours.verdict, unknown) << only;
  }
}

TEST(malloc_tsx_claims, without_transactions_chance_is_judged_by_where_blocks_lie) {
  const placed_readings published = as_published();
  placed_readings plain;
  for (const auto& [at, r] : published.all()) {
    if (at.locks == "tts") plain.add(at, r);
  }
  plain.add({"random", "tts", 560}, steady(95, 7));
  EXPECT_EQ(judge_ring(plain, 128, here)[3].ours.verdict, agrees);
  plain.add({"random", "tts", 624}, steady(95, 7));
  EXPECT_EQ(judge_ring(plain, 128, here)[3].ours.verdict, differs) << "no worse than index-aware";
}

TEST(malloc_tsx_claims, other_rings_are_not_the_papers) {
  for (const judged_claim& f : judge_ring(as_published(), 512, here))
    EXPECT_EQ(f.source(), "Beyond the paper");
  for (const judged_claim& f : judge_ring(as_published(), 128, here)) EXPECT_EQ(f.source(), "The paper");
  EXPECT_EQ(verdicts(judge_ring(as_published(), 512, here)), (judged_as{agrees, differs}))
      << "chance puts too many at one index at one size of three";
}

// Figure 2.

TEST(malloc_tsx_claims, the_tree_is_slow_at_the_same_sizes_and_capacity_forces_sections_onto_the_lock) {
  auto tree = tree_as_published();
  tree.add({"glibc", "tle", 2032}, steady(295, 1, 0.8));
  EXPECT_EQ(judge_tree(tree, here)[0].ours.verdict, differs) << "within 2 %";
  tree.add({"glibc", "tle", 560}, steady(80, 1, 1.0));
  tree.add({"glibc", "tle", 2032}, steady(90, 1, 0.8));
  EXPECT_EQ(judge_tree(tree, here)[0].ours.verdict, differs) << "slow everywhere";
  EXPECT_THAT(judge_tree(tree_as_published(), here)[0].ours.sentence, HasSubstr("0.30 at 2032; 1.00 in"));
  const auto of = [](double glibc, double committed, double aware) {
    auto changed = tree_as_published();
    changed.add({"glibc", "tle", 2032}, {{90}, 1, committed, glibc});
    changed.add({"index-aware", "tle", 2032}, {{300}, 1, 1.0, aware});
    return judge_tree(changed, here)[1].ours;
  };
  EXPECT_EQ(of(0.2, 0.8, 0).verdict, agrees);
  EXPECT_THAT(of(0.2, 0.8, 0).sentence, HasSubstr("0.2000 and 20.00 % at 2032"));
  EXPECT_EQ(of(0.0009, 0.8, 0).verdict, differs) << "too few aborts";
  EXPECT_EQ(of(0.2, 0.91, 0).verdict, differs) << "they did not lead to the lock";
  EXPECT_EQ(of(0.2, 0.8, 0.001).verdict, differs) << "index-aware aborts as well";
  EXPECT_EQ(of(0.0015, 0.8, 0.0009).verdict, differs) << "nearly as often";
}

TEST(malloc_tsx_claims, most_bad_sizes_must_be_so) {
  auto tree = tree_as_published();
  for (const std::uint64_t size : {496U, 1008U}) {
    tree.add({"glibc", "tts", size}, steady(100, 1));
    tree.add({"glibc", "tle", size}, steady(300, 1, size == 496 ? 1.0 : 0.9));
    tree.add({"index-aware", "tts", size}, steady(100, 1));
    tree.add({"index-aware", "tle", size}, steady(300, 1, 1.0));
  }
  EXPECT_EQ(judge_tree(tree, here)[1].ours.verdict, agrees) << "2 of 3";
  tree.add({"glibc", "tle", 1008}, steady(300, 1, 1.0));
  EXPECT_EQ(judge_tree(tree, here)[1].ours.verdict, differs) << "1 of 3";
}

TEST(malloc_tsx_claims, nodes_made_late_are_not_displaced) {
  const auto judged = [](double early, double late) {
    auto figure_2 = tree_as_published();
    auto other = tree_as_published();
    figure_2.add({"glibc", "tle", 2032}, {{90}, 1, 1 - early, early});
    other.add({"glibc", "tle", 2032}, {{300}, 1, 1 - late, late});
    return judge_late_tree(other, figure_2, here);
  };
  EXPECT_EQ(judged(0.2, 0.05).source(), "Beyond the paper");
  EXPECT_EQ(judged(0.2, 0.05).ours.verdict, agrees);
  EXPECT_THAT(judged(0.2, 0.05).ours.sentence, HasSubstr("with glibc: 0.0500 instead of 0.2000 at 2032"));
  EXPECT_EQ(judged(0.2, 0.051).ours.verdict, differs) << "more than a quarter";
  EXPECT_EQ(judged(0.0009, 0).ours.verdict, unknown) << "too few to tell";
  EXPECT_EQ(judge_late_tree(tree_as_published(), {}, here).ours.verdict, unknown)
      << "nothing to hold against";
  EXPECT_EQ(judge_late_tree({}, tree_as_published(), here).ours.verdict, unknown);

  // At one more size, at which they do not fit either way.
  auto figure_2 = tree_as_published();
  auto other = tree_as_published();
  for (placed_readings* const one : {&figure_2, &other}) one->add({"glibc", "tle", 496}, steady(90, 1, 0.8));
  other.add({"glibc", "tle", 2032}, steady(300, 1, 1));
  EXPECT_EQ(judge_late_tree(other, figure_2, here).ours.verdict, differs);
}

TEST(malloc_tsx_claims, elision_wins_with_several_threads_at_every_size_of_every_malloc) {
  auto tree = tree_as_published();
  EXPECT_THAT(judge_concurrent_tree(tree, 4, here)[0].ours.sentence,
              HasSubstr("with 4 threads 1.50 to 3.00 x"));
  EXPECT_EQ(judge_concurrent_tree(tree, 1, here)[0].ours.verdict, unknown);
  EXPECT_EQ(judge_concurrent_tree(tree, 1, here)[1].ours.verdict, unknown);
  tree.add({"glibc", "tle", 2032}, steady(61, 1, 0.8));
  EXPECT_EQ(judge_concurrent_tree(tree, 4, here)[0].ours.verdict, differs);
  EXPECT_THAT(judge_concurrent_tree(tree, 4, here)[0].ours.sentence, HasSubstr("less than 1.02 x in 1 of 4"));
}

TEST(malloc_tsx_claims, at_2032_bytes_the_best_of_the_locks_is_whosever_is_fastest) {
  auto tree = tree_as_published();
  const auto serial = [&] { return judge_concurrent_tree(tree, 4, here)[1].ours; };
  EXPECT_THAT(serial().sentence, HasSubstr("glibc under tle is 0.90 x"));
  tree.add({"glibc", "tle", 2032}, steady(99, 1, 0.8));
  EXPECT_EQ(serial().verdict, differs) << "within 2 %";
  tree.add({"jemalloc", "tts", 2032}, steady(110, 1));
  EXPECT_EQ(serial().verdict, agrees);
  EXPECT_THAT(serial().sentence, Not(HasSubstr("0.99")));
}

TEST(malloc_tsx_claims, the_law_is_exact_where_none_may_commit_and_holds_for_99_rings_in_a_hundred) {
  placed_readings ring;
  for (unsigned i = 0; i < 200; ++i)
    ring.add({"glibc", "tle", i}, steady(1, i % 2 == 0 ? 13 : 11, i % 2 == 0 ? 0.0 : 0.95));
  ring.add({"index-aware", "tle", 1}, steady(1, 12, 0.5));
  const auto verdict = [&] { return judge_law(law_of({&ring}, ways), ways).ours.verdict; };
  EXPECT_EQ(verdict(), agrees) << "as many as ways is neither";
  ring.add({"glibc", "tle", 300}, steady(1, 13, 0.0001));
  EXPECT_EQ(verdict(), agrees);
  ring.add({"glibc", "tle", 301}, steady(1, 11, 0.9));
  EXPECT_EQ(verdict(), agrees) << "two of 202";
  ring.add({"glibc", "tle", 302}, steady(1, 11, 0.5));
  EXPECT_EQ(verdict(), differs);
}

TEST(malloc_tsx_claims, the_law_is_of_elided_sections_and_leaves_full_indices_out) {
  placed_readings one;
  placed_readings other;
  one.add({"glibc", "tle", 64}, steady(1, 13, 0.0));
  one.add({"glibc", "tle", 128}, steady(1, 13, 0.001));
  one.add({"glibc", "tle", 192}, steady(1, 11, 1.0));
  other.add({"glibc", "tle", 64}, steady(1, 11, 0.9));
  other.add({"glibc", "tle", 128}, steady(1, 12, 1.0));
  other.add({"glibc", "tle", 192}, steady(1, 12, 0.0));
  // What is not attempted each time says nothing.
  one.add({"glibc", "tts", 64}, steady(1, 13));
  one.add({"glibc", "tle-learnt", 64}, steady(1, 1, 0.0));
  const capacity_law law = law_of({&one, &other}, ways);
  EXPECT_THAT((std::array{law.overloaded, law.roomy, law.full}), Each(2));
  EXPECT_THAT((std::array{law.overloaded_hold, law.roomy_hold, law.full_commit}), Each(1));
  EXPECT_EQ(law.configurations(), 4U);
  EXPECT_EQ(law.holds(), 2U);
}

TEST(malloc_tsx_claims, fresh_blocks_are_to_commit_nineteen_times_in_twenty) {
  placed_readings fresh;
  fresh.add({"glibc", "tle", 1008}, steady(1, 9, 0.7));
  EXPECT_EQ(judge_fresh(fresh).ours.verdict, unknown);
  fresh.add({"index-aware", "tle", 1008}, steady(1, 9, 0.96));
  EXPECT_EQ(judge_fresh(fresh).ours.verdict, agrees);
  fresh.add({"index-aware", "tle", 1008}, steady(1, 9, 0.94));
  EXPECT_EQ(judge_fresh(fresh).ours.verdict, differs);
}

placed_readings some() {
  placed_readings all;
  all.add({"glibc", "tts", 496}, {{10, 30, 20}, 16, {}, {}});
  all.add({"glibc", "tle", 496}, {{10}, 16, 0.25, 0.5});
  all.add({"index-aware", "tts", 496}, {{20, 20, 20}, 3, {}, {}});
  all.add({"index-aware", "tts", 512}, {{20, 20, 20}, 2, {}, {}});
  all.add({"index-aware", "tle-learnt", 512}, {{30, 30, 30}, 2, 1, 0});
  return all;
}

std::vector<std::string> titles(const std::vector<chart>& charts) {
  std::vector<std::string> all;
  all.reserve(charts.size());
  for (const chart& c : charts) all.push_back(c.title);
  return all;
}

TEST(malloc_tsx_figures, throughput_is_a_multiple_of_the_reference_at_the_same_size) {
  const chart c = charts_of(some(), true, {.ways = 12}).front();
  ASSERT_EQ(c.curves.size(), 4U);
  EXPECT_EQ(c.curves[0].name, "glibc, tle");
  EXPECT_EQ(c.curves[0].points, (points{{496, 0.5}}));
  EXPECT_EQ(c.curves[1].points, (points{{496, 1.0}}));
  EXPECT_EQ(c.curves[2].name, "index-aware, tle-learnt");
  EXPECT_EQ(c.curves[2].points, (points{{512, 1.5}}));
  EXPECT_EQ(c.curves[3].points, (points{{496, 1.0}, {512, 1.0}}));
}

TEST(malloc_tsx_figures, loads_of_rings_are_held_against_the_ways) {
  const auto charts = charts_of(some(), true, {.ways = 12});
  EXPECT_EQ(titles(charts), (texts{"Throughput", "Nodes at the fullest index", "Sections that were elided",
                                   "Aborts for capacity"}));
  EXPECT_EQ(charts[1].limit.value().y, 12);
  EXPECT_EQ(charts[1].y, "nodes");
  EXPECT_EQ(charts[1].curves[0].points, (points{{496, 16}}));
  EXPECT_EQ(titles(charts_of(some(), false, {.ways = 12})),
            (texts{"Throughput", "Sections that were elided", "Aborts for capacity"}));
}

TEST(malloc_tsx_figures, what_is_elided_is_drawn_where_there_are_transactions) {
  const auto charts = charts_of(some(), false, {.ways = 12});
  ASSERT_EQ(charts[1].curves.size(), 1U) << "a lock that learns is another matter";
  EXPECT_EQ(charts[1].curves[0].points, (points{{496, 0.25}}));
  EXPECT_EQ(charts[2].curves[0].points, (points{{496, 0.5}}));
  placed_readings plain;
  plain.add({"glibc", "tts", 64}, {{1}, 1, {}, {}});
  EXPECT_EQ(titles(charts_of(plain, true, {.ways = 12})), (texts{"Nodes at the fullest index"}))
      << "nothing to be a multiple of";
}

TEST(malloc_tsx_figures, a_simulation_has_lines_and_no_rounds) {
  const auto charts = charts_of(some(), true, {.ways = 8, .glibc = "glibc-model", .simulated = true});
  EXPECT_THAT(charts[0].caption, Not(HasSubstr("round")));
  EXPECT_EQ(charts[1].y, "lines");
  EXPECT_EQ(charts[1].title, "Lines of nodes at the fullest index");
  EXPECT_THAT(charts_of(some(), true, {.ways = 8})[0].caption, HasSubstr("round by round"));
}

TEST(malloc_tsx_figures, entries_have_what_was_read) {
  const point at{"glibc", "tle", 496};
  EXPECT_EQ(entry_name("ring-128", at), "ring-128/glibc/tle/size:496");
  nlohmann::ordered_json elided;
  add_reading(elided, at, {{1}, 16, 0.25, 0.5}, {16, 0});
  EXPECT_EQ(
      elided.dump(),
      R"({"locks":"tle","size":496,"largest_load":16,"loads":[16,0],"committed":0.25,"capacity_aborts":0.5})");
  nlohmann::ordered_json plain;
  add_reading(plain, {"glibc", "tts", 496}, {{1}, 16, {}, {}}, {16, 0});
  EXPECT_FALSE(plain.contains("committed"));
  EXPECT_FALSE(plain.contains("capacity_aborts"));
}

}  // namespace
}  // namespace espalier::app::malloc_tsx
