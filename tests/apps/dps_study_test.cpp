// Claims of the study dps, judged over readings of which it is known what they say.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "apps/judged.hpp"
#include "apps/studies/dps/claims.hpp"
#include "apps/studies/dps/judging.hpp"
#include "apps/studies/dps/lines_of_code.hpp"
#include "apps/studies/dps/sequential_skip_list.hpp"
#include "apps/studies/dps/sequential_tree.hpp"
#include "apps/studies/dps/served_list.hpp"
#include "espalier/measure/random.hpp"

namespace espalier::app {
namespace {

using namespace ::testing;

using sizes_found = std::vector<std::uint64_t>;

const dps::setting dps_setting{.threads = {1, 10, 20, 40, 80}, .many_keys = 786'432};

dps::page dps_page(const std::string& id) {
  for (dps::page& p : dps::pages_of(dps_setting))
    if (p.id == id) return p;
  return {};
}

/// Calls visit(load, technique) for all that is measured for a page.
template <class Visit>
void visit_measured(const dps::page& p, Visit visit) {
  for (const dps::panel& of : p.panels) {
    for (const dps::load& l : of.loads) {
      for (const std::string& how : of.techniques) visit(l, how);
    }
  }
}

TEST(dps_study, judges_nothing_over_readings_that_are_too_short) {
  for (const bool short_run : {false, true}) {
    dps::results measured;
    std::size_t judged = 0;
    for (const dps::page& p : dps::pages_of(dps_setting)) {
      visit_measured(p, [&](const dps::load& l, const std::string& how) {
        measured.add(l, how, {.speed = 1, .costs = {}, .too_short = short_run ? "Too short" : ""});
      });
      for (const judged_claim& c : p.judge(measured)) {
        const bool needs_no_run = c.ours.sentence.find("Not counted") != std::string::npos ||
                                  c.ours.sentence.find("lines of code") != std::string::npos;
        if (needs_no_run) continue;
        EXPECT_EQ(c.ours.verdict == too_short, short_run) << c.claim;
        EXPECT_EQ(c.ours.sentence.find("Too short (") != std::string::npos, short_run) << c.claim;
        if (c.ours.verdict != too_short) ++judged;
      }
    }
    EXPECT_EQ(judged == 0, short_run);
  }
}

TEST(dps_study, measures_whatever_its_claims_compare) {
  for (const dps::page& p : dps::pages_of(dps_setting)) {
    dps::results measured;
    measured.coherence_served = measured.coherence_delegated = 50;
    for (const std::uint64_t keys : p.depths) measured.depth[keys] = 50;
    // Of other pages, which are measured too.
    for (const dps::page& other : dps::pages_of(dps_setting))
      visit_measured(other,
                     [&](const dps::load& l, const std::string& how) { measured.add(l, how, {.speed = 1}); });
    for (const judged_claim& c : p.judge(measured))
      EXPECT_NE(c.ours.verdict, unknown) << c.claim << c.ours.sentence;
  }
}

TEST(dps_study, a_large_tree_grows_with_the_option_and_a_small_one_stays_in_the_l2) {
  for (const auto& [many, sizes] :
       std::map<std::uint64_t, sizes_found>{{786'432, {1024, 16'384, 786'432, 1'966'080}},
                                            {5'000'000, {1024, 16'384, 5'000'000, 12'500'000}},
                                            {100, {100, 250}}}) {
    for (const dps::page& p : dps::pages_of({.threads = {80}, .many_keys = many})) {
      if (p.id != "figure-11") continue;
      sizes_found found;
      for (const dps::load& l : p.panels[3].loads) found.push_back(l.keys);
      EXPECT_EQ(found, sizes);
    }
  }
}

TEST(dps_study, shows_each_panel_with_uniform_and_with_skewed_draws) {
  for (const char* const id : {"figure-9", "figure-10", "figure-11", "figure-12"}) {
    std::map<bool, std::size_t> loads;
    for (const dps::panel& of : dps_page(id).panels)
      for (const dps::load& l : of.loads) loads[l.skewed] += l.threads == 80 ? 1 : 0;
    EXPECT_EQ(loads[false], loads[true]) << id;
  }
}

TEST(dps_study, a_technique_over_a_structure_is_taken_apart_again) {
  const dps::approach made = dps::approach_of(dps::over(dps::asynchronous, dps::served_list));
  EXPECT_EQ(made.technique, dps::asynchronous);
  EXPECT_EQ(made.structure, dps::served_list);
  EXPECT_EQ(dps::approach_of("ticket").technique, "ticket");
  EXPECT_EQ(dps::approach_of("ticket").structure, "");
}

/// The verdict on the claim of figure 10 that begins so, where throughputs of the techniques under the hot load are these, and
/// 1 elsewhere.
agreement of_hot_lists(const std::string& claim, const std::map<std::string, double>& speeds) {
  const dps::page p = dps_page("figure-10");
  dps::results measured;
  visit_measured(p, [&](const dps::load& l, const std::string& how) {
    const auto found = speeds.find(how);
    const bool hot = l.updates == 50 && l.threads == 80;
    measured.add(l, how, {.speed = hot && found != speeds.end() ? found->second : 1});
  });
  for (const judged_claim& c : p.judge(measured))
    if (c.claim.starts_with(claim)) return c.ours.verdict;
  return unknown;
}

TEST(dps_study, delegation_must_beat_the_next_best_list_and_the_same_partitions_without_it) {
  const std::string over_optik = "With 80 threads DPS has 4.3 times";
  const std::string over_control = "Delegation gains at least 1.2 times";
  const std::string delegated = "DPS over parsec_list";
  EXPECT_EQ(of_hot_lists(over_optik, {{delegated, 2.66}}), agrees);
  EXPECT_EQ(of_hot_lists(over_optik, {{delegated, 2.64}}), differs);
  EXPECT_EQ(of_hot_lists(over_optik, {{delegated, 2.66}, {"optik_list", 1.01}}), differs);
  EXPECT_EQ(of_hot_lists(over_control, {{delegated, 1.21}}), agrees);
  EXPECT_EQ(of_hot_lists(over_control, {{delegated, 1.21}, {"partitioned over parsec_list", 1.02}}), differs);
  EXPECT_EQ(of_hot_lists("Traffic between sockets limits all", {{"lazy_list", 1.6}}), differs);
  EXPECT_EQ(of_hot_lists("Traffic between sockets limits all", {{"lazy_list", 1.4}}), agrees);
}

TEST(dps_study, a_part_that_loses_more_or_gains_more_or_differs_less_is_told_from_its_opposite) {
  const dps::load a{.what = dps::work::map, .keys = 1};
  const dps::load b{.what = dps::work::map, .keys = 2};
  dps::results measured;
  measured.add(a, "x", {.speed = 4});
  measured.add(b, "x", {.speed = 1});
  measured.add(a, "y", {.speed = 3});
  measured.add(b, "y", {.speed = 6});
  EXPECT_EQ(dps::falls_more("x", "y", a, b)(measured).verdict, agrees);
  EXPECT_EQ(dps::falls_more("y", "x", a, b)(measured).verdict, differs);
  EXPECT_EQ(dps::gains_more({"x", a}, {"y", a}, {"x", b}, {"y", b})(measured).verdict, agrees);
  EXPECT_EQ(dps::gains_more({"x", b}, {"y", b}, {"x", a}, {"y", a})(measured).verdict, differs);
  EXPECT_EQ(dps::less_spread({"y", a}, {"y", b}, {"x", a}, {"x", b})(measured).verdict, agrees);
  EXPECT_EQ(dps::less_spread({"x", a}, {"x", b}, {"y", a}, {"y", b})(measured).verdict, differs);
  EXPECT_EQ(dps::no_faster({"x", a}, {"x", b}, 4)(measured).verdict, agrees);
  EXPECT_EQ(dps::no_faster({"x", a}, {"x", b}, 3.9)(measured).verdict, differs);
}

TEST(dps_study, where_halves_are_not_alike_their_extremes_decide) {
  const dps::load at{.what = dps::work::map, .keys = 1};
  const auto compared = [&](std::pair<double, double> halves, const dps::part& holds) {
    dps::results measured;
    measured.add(at, "uneven", {.speed = 2, .costs = {}, .too_short = "Too short", .halves = halves});
    measured.add(at, "even", {.speed = 1});
    return holds(measured);
  };
  const dps::part faster = dps::beats(at, "uneven", "even", 1.5);
  EXPECT_EQ(compared({1.6, 3}, faster).verdict, agrees);
  EXPECT_THAT(compared({1.6, 3}, faster).sentence, HasSubstr("2.00 times the throughput of"));
  EXPECT_THAT(compared({1.6, 3}, faster).sentence, HasSubstr("by their halves 1.60 to 3.00 times"));
  EXPECT_EQ(compared({1.4, 3}, faster).verdict, too_short);
  EXPECT_THAT(compared({1.4, 3}, faster).sentence, HasSubstr("Too short (uneven ("));
  EXPECT_EQ(compared({1.4, 3}, dps::beats(at, "uneven", "even", 3.1)).verdict, differs);
  EXPECT_EQ(compared({1.4, 3}, dps::beats(at, "even", "uneven", 0.75)).verdict, differs);
  const dps::part alike = dps::alike({"uneven", at}, {"even", at}, 1.5);
  EXPECT_EQ(compared({1.6, 3}, alike).verdict, differs);
  EXPECT_EQ(compared({0.5, 3}, alike).verdict, too_short) << "both extremes differ, 1 between them does not";
  // What is counted takes a run whose halves are alike.
  EXPECT_EQ(compared({1.6, 3}, dps::more_misses({"uneven", at}, {"even", at})).verdict, too_short);
}

TEST(dps_study, what_is_compared_has_lines_of_code) {
  for (const char* const name :
       {"mcs_list", "ticket", "int_lf", "sequential tree", "examples/sharded_counters"})
    EXPECT_GT(dps::lines_of_code(name), 20U) << name;
  EXPECT_EQ(dps::lines_of_code("nothing"), 0U);
}

/// Against std::map, with keys of which half are present.
template <class Structure, class Insert, class Erase>
void expect_like_std_map(Structure& structure, Insert insert, Erase erase) {
  std::map<std::uint64_t, bool> present;
  measure::random_generator random(42);
  for (unsigned i = 0; i < 4000; ++i) {
    const std::uint64_t key = random.below(200);
    switch (random.below(3)) {
      case 0:
        ASSERT_EQ(insert(key), present.emplace(key, true).second) << key;
        break;
      case 1:
        ASSERT_EQ(erase(key), present.erase(key) == 1) << key;
        break;
      default:
        ASSERT_EQ(structure.contains(key), present.contains(key)) << key;
    }
  }
}

TEST(dps_study, structures_of_dedicated_servers_are_maps) {
  simulate::sequential_tree tree;
  expect_like_std_map(
      tree, [&](std::uint64_t key) { return tree.insert(key, key); },
      [&](std::uint64_t key) { return tree.erase(key); });
  simulate::sequential_skip_list skip;
  expect_like_std_map(
      skip, [&](std::uint64_t key) { return skip.insert(key, key); },
      [&](std::uint64_t key) { return skip.erase(key); });
}

TEST(dps_study, a_served_list_is_a_map_where_places_are_out_of_date) {
  simulate::served_list list;
  // The last places that clients have found. Their nodes are unlinked, or others are linked behind them.
  std::map<std::uint64_t, simulate::served_list::node*> places;
  const auto place = [&](std::uint64_t key) {
    const auto found = places.emplace(key, list.place_of(key)).first->second;
    if (key % 3 == 0) places.erase(key);
    return found;
  };
  expect_like_std_map(
      list, [&](std::uint64_t key) { return list.insert(place(key), key, key); },
      [&](std::uint64_t key) { return list.erase(place(key), key); });
}

}  // namespace
}  // namespace espalier::app
