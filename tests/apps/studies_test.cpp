// Claims of the studies, judged over readings of which it is known what they say, and the figures that they stand on.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "apps/simulate/counted_phase.hpp"
#include "apps/studies/atc18/claims.hpp"
#include "apps/studies/cache/claims.hpp"
#include "apps/studies/cache/values.hpp"
#include "apps/studies/calibration/claims.hpp"
#include "apps/studies/dps/claims.hpp"
#include "apps/studies/dps/judging.hpp"
#include "apps/studies/dps/lines_of_code.hpp"
#include "apps/studies/dps/sequential_skip_list.hpp"
#include "apps/studies/dps/sequential_tree.hpp"
#include "apps/studies/dps/served_list.hpp"
#include "apps/studies/malloc_speed/claims.hpp"
#include "apps/studies/malloc_tsx/claims.hpp"
#include "apps/studies/oltp/claims.hpp"
#include "espalier/measure/random.hpp"

namespace espalier::app {
namespace {

using namespace ::testing;

constexpr auto agrees = agreement::agrees;
constexpr auto differs = agreement::differs;
constexpr auto unknown = agreement::not_measurable;
constexpr auto too_short = agreement::too_short;

using judged_as = std::vector<agreement>;
using found_claims = std::vector<std::pair<std::string, agreement>>;
using texts = std::vector<std::string>;
using sizes_found = std::vector<std::uint64_t>;
using points = decltype(chart_curve::points);

template <class Findings>
judged_as verdicts(const Findings& findings) {
  std::vector<agreement> all;
  for (const judged_claim& f : findings) all.push_back(f.ours.verdict);
  return all;
}

constexpr std::uint64_t million = 1'000'000;

reading steady(double speed) { return {speed, speed, speed, std::nullopt}; }

readings of(const std::map<std::string, reading>& maps, const std::string& machine = {}) {
  readings all(machine);
  for (const auto& [map, r] : maps) all.add(map, million, r);
  return all;
}

agreement verdict(const judge& holds, const readings& measured) { return holds(measured, million).verdict; }
/// Of `a` at this speed, and `b` at 100.
agreement verdict(const judge& holds, double speed) {
  return verdict(holds, of({{"a", steady(speed)}, {"b", steady(100)}}));
}

TEST(study_claims, half_of_the_papers_difference_is_enough_and_an_order_needs_little) {
  const judge holds = faster("a", "b", 1.4);
  EXPECT_EQ(verdict(holds, 121), agrees);
  EXPECT_EQ(verdict(holds, 119), differs);
  EXPECT_EQ(verdict(holds, 70), differs);
  for (const double speed : {70, 119, 130}) {
    const judgement j = holds(of({{"a", steady(speed)}, {"b", steady(100)}}), million);
    EXPECT_EQ(j.sentence.find("direction is the paper's") != std::string::npos, speed == 119);
  }
  EXPECT_EQ(verdict(faster("a", "b"), 103), agrees);
  EXPECT_EQ(verdict(faster("a", "b"), 101), differs);
  EXPECT_EQ(verdict(far_faster("a", "b"), 201), agrees);
  EXPECT_EQ(verdict(far_faster("a", "b"), 199), differs);
}

TEST(study_claims, runs_that_do_not_tell_decide_nothing) {
  const readings wide = of({{"a", {150, 90, 160, {}}}, {"b", {100, 95, 140, {}}}});
  EXPECT_EQ(verdict(faster("a", "b", 1.4), wide), unknown);
  EXPECT_THAT(faster("a", "b", 1.4)(wide, million).sentence, HasSubstr("0.64 to 1.68"));
}

TEST(study_claims, the_same_is_within_a_tenth) {
  EXPECT_EQ(verdict(alike("a", "b"), 109), agrees);
  EXPECT_EQ(verdict(alike("a", "b"), of({{"a", steady(100)}, {"b", steady(109)}})), agrees);
  EXPECT_EQ(verdict(alike("a", "b"), 112), differs);
  EXPECT_EQ(verdict(alike("a", "b"), of({{"a", {112, 105, 120, {}}}, {"b", steady(100)}})), unknown);
}

TEST(study_claims, what_is_missing_is_named_and_decides_nothing) {
  const readings one = of({{"a", steady(100)}, {"c", steady(50)}});
  for (const judge& holds :
       {faster("a", "b", 1.4), alike("a", "b"), far_faster("a", "b"),
        mean_ratio({{"a", "c"}, {"a", "b"}}, 1.1), ordered({{"x", {"a"}}, {"y", {"b"}}}),
        none_is_best({"a"}, {"b"}), crossing_cost({{"a", "b"}}, 1.2), no_crossing_cost({{"a", "b"}})}) {
    const judgement j = holds(one, million);
    EXPECT_EQ(j.verdict, unknown);
    EXPECT_THAT(j.sentence, HasSubstr("Not measured: b."));
  }
}

TEST(study_claims, means_are_geometric) {
  const readings measured =
      of({{"a", steady(400)}, {"b", steady(100)}, {"c", steady(100)}, {"d", steady(100)}});
  const judgement j = mean_ratio({{"a", "b"}, {"c", "d"}}, 2)(measured, million);
  EXPECT_EQ(j.verdict, agrees);
  EXPECT_THAT(j.sentence, HasSubstr("is 2.00"));
  EXPECT_EQ(verdict(mean_ratio({{"b", "a"}, {"d", "c"}}, 2), measured), differs);
}

TEST(study_claims, tiers_are_compared_with_the_next) {
  const std::vector<tier> tiers{{"fast", {"a", "b"}}, {"middle", {"c"}}, {"slow", {"d"}}};
  const auto with = [](double c, double d) {
    return of({{"a", steady(100)}, {"b", steady(90)}, {"c", steady(c)}, {"d", steady(d)}});
  };
  EXPECT_EQ(verdict(ordered(tiers), with(80, 70)), agrees);
  EXPECT_EQ(verdict(ordered(tiers), with(80, 85)), differs);
  EXPECT_EQ(verdict(ordered(tiers), with(80, 80)), differs);  // one class, not two
  EXPECT_EQ(verdict(ordered(tiers), with(80, 79)), differs);
  EXPECT_EQ(verdict(ordered(tiers), with(99, 70)), differs);
  EXPECT_EQ(verdict(none_is_best({"a", "b"}, {"c", "d"}), with(99, 70)), differs);
  EXPECT_EQ(verdict(none_is_best({"a", "b"}, {"c", "d"}), with(103, 70)), agrees);
}

TEST(study_claims, what_does_not_hold_is_said_with_its_costs) {
  readings measured;
  measured.add("a", million, {100, 100, 100, 56, operation_costs{161, 5.63, 0}});
  measured.add("b", million, {101, 101, 101, 32, operation_costs{80, 5.79, 0.01}});
  measured.add("c", million, {99, 99, 99, 64, operation_costs{120, 6.21, 0.01}});
  for (const judge& holds :
       std::initializer_list<judge>{faster("a", "b"), faster("a", "b", 1.4), far_faster("a", "b"),
                                    mean_ratio({{"a", "b"}}, 1.4), ordered({{"a", {"a"}}, {"b", {"b"}}})}) {
    const judgement j = holds(measured, million);
    EXPECT_EQ(j.verdict, differs);
    EXPECT_THAT(j.sentence,
                HasSubstr("161 accesses, 5.63 lines from memory, 0.00 page walks, nodes of 56 bytes in"));
    EXPECT_THAT(j.sentence, HasSubstr("80 accesses, 5.79 lines"));
  }
  const judgement tiers = ordered({{"the first", {"a"}}, {"the rest", {"b", "c"}}})(measured, million);
  EXPECT_THAT(tiers.sentence, HasSubstr("Not apart: the first and the rest, 1.00 times."));
  EXPECT_THAT(tiers.sentence,
              HasSubstr("100 accesses, 6.00 lines from memory, 0.01 page walks, nodes of 32 to 64 bytes"));
  // What holds needs no reason, and where nothing is known none is made up.
  EXPECT_THAT(faster("b", "c")(measured, million).sentence, Not(HasSubstr("costs")));
  const readings bare = of({{"a", steady(100)}, {"b", steady(101)}});
  EXPECT_THAT(faster("a", "b")(bare, million).sentence, Not(HasSubstr("costs")));
}

TEST(study_claims, rounds_tell_where_medians_do_not) {
  // The machine has slowed down threefold meanwhile; within each round `a` is 1.2 times as fast.
  const auto with = [](std::size_t session_of_b) {
    readings measured;
    reading a{240, 120, 360, std::nullopt, std::nullopt, {360, 240, 120}, 1};
    reading b{200, 100, 300, std::nullopt, std::nullopt, {300, 200, 100}, session_of_b};
    measured.add("a", million, a);
    measured.add("b", million, b);
    return measured;
  };
  const std::vector<tier> tiers{{"x", {"a"}}, {"y", {"b"}}};
  for (const judge& holds : std::initializer_list<judge>{faster("a", "b"), faster("a", "b", 1.2),
                                                         mean_ratio({{"a", "b"}}, 1.2), ordered(tiers)}) {
    EXPECT_EQ(holds(with(1), million).verdict, agrees);
    EXPECT_EQ(holds(with(2), million).verdict, unknown);  // rounds of another session
  }
  EXPECT_EQ(faster("b", "a")(with(1), million).verdict, differs);
}

TEST(study_claims, a_ratio_of_rounds_is_not_said_of_medians) {
  readings measured;
  measured.add("a", million, {2.7e6, 2.7e6, 2.7e6, std::nullopt, std::nullopt, {2.2e6, 2.7e6, 2.8e6}, 1});
  measured.add("b", million, {2.03e6, 2.03e6, 2.03e6, std::nullopt, std::nullopt, {2e6, 2.03e6, 2.5e6}, 1});
  EXPECT_EQ(
      faster("a", "b")(measured, million).sentence,
      "a does 2.70 Mop/s and b does 2.03 Mop/s in the median; round by round it is 1.12 times as much.");
  EXPECT_EQ(faster("a", "b")(of({{"a", steady(3e6)}, {"b", steady(2e6)}}), million).sentence,
            "a does 3.00 Mop/s, 1.50 times the 2.00 Mop/s of b.");
}

TEST(study_claims, only_nodes_that_straddle_lines_can_lose_by_it) {
  const auto with = [](double small, std::size_t bytes) {
    return of({{"large", {100, 100, 100, 64}}, {"small", {small, small, small, bytes}}});
  };
  const std::vector<map_pair> pairs{{"large", "small"}};
  EXPECT_EQ(verdict(crossing_cost(pairs, 1.2), with(85, 40)), agrees);
  EXPECT_EQ(verdict(crossing_cost(pairs, 1.2), with(99, 40)), differs);
  EXPECT_EQ(verdict(crossing_cost(pairs, 1.2), with(85, 32)), unknown);
  EXPECT_EQ(verdict(no_crossing_cost(pairs), with(99, 40)), agrees);
  EXPECT_EQ(verdict(no_crossing_cost(pairs), with(85, 40)), differs);
  EXPECT_EQ(verdict(no_crossing_cost(pairs), with(99, 32)), unknown);
}

TEST(study_claims, are_judged_where_and_at_what_size_the_paper_has_them) {
  const judge holds = faster("a", "b", 1.4);
  const std::vector<claim> claims{{"of all machines", {million}, holds},
                                  {"of haswell", {million}, holds, "haswell"},
                                  {"of haswell alone", {million}, holds, "haswell", false},
                                  {"of any size", {}, holds}};
  // Which of them are judged, as "claim keys".
  const auto judged = [&](const std::string& machine, const std::vector<std::uint64_t>& keys) {
    readings measured(machine);
    for (const std::uint64_t k : keys) {
      measured.add("a", k, steady(150));
      measured.add("b", k, steady(100));
    }
    found_claims found;
    for (const judged_claim& f : judge_all(claims, measured, keys))
      found.emplace_back(f.claim + " " + std::to_string(f.keys.value()), f.ours.verdict);
    return found;
  };
  const std::string all = "of all machines ";
  const std::string any = "of any size ";
  const std::string here = "of haswell ";
  const std::string alone = "of haswell alone ";
  const std::string paper = "1000000";
  EXPECT_EQ(
      judged("haswell", {million}),
      (found_claims{
          {all + paper, agrees}, {here + paper, agrees}, {alone + paper, agrees}, {any + paper, agrees}}));
  EXPECT_EQ(judged("abu_dhabi", {million}), (found_claims{{all + paper, agrees}, {any + paper, agrees}}));
  EXPECT_EQ(
      judged("", {million}),
      (found_claims{
          {all + paper, agrees}, {here + paper, agrees}, {alone + paper, unknown}, {any + paper, agrees}}));
  EXPECT_EQ(
      judged("haswell", {500}),
      (found_claims{
          {all + "500", unknown}, {here + "500", unknown}, {alone + "500", unknown}, {any + "500", agrees}}));
  EXPECT_EQ(judged("abu_dhabi", {500, million}),
            (found_claims{{all + paper, agrees}, {any + "500", agrees}, {any + paper, agrees}}));
}

TEST(atc18_study, claims_speak_of_maps_that_their_figure_measures) {
  for (const atc18::figure& f : atc18::figures()) {
    readings all;
    std::set<std::string> maps;
    for (const auto& group : f.groups) {
      for (const atc18::subject& s : group) {
        EXPECT_TRUE(maps.insert(s.name()).second) << f.id << " has " << s.name() << " twice";
        for (const std::uint64_t keys : f.keys) all.add(s.name(), keys, steady(100));
      }
    }
    for (const judged_claim& found : judge_all(f.claims, all, f.keys))
      EXPECT_THAT(found.ours.sentence, Not(HasSubstr("Not measured"))) << f.id << ": " << found.ours.sentence;
  }
}

TEST(simulated_phase, is_too_short_with_few_operations_or_with_halves_that_are_not_alike) {
  const auto why = [](std::uint64_t operations, std::uint64_t half, unsigned threads,
                      std::uint64_t steps = 1) {
    return simulate::too_short({operations, {}, {}, 1000, 1, half}, threads, steps);
  };
  EXPECT_EQ(why(400, 500, 20), "");
  EXPECT_EQ(why(399, 500, 20), "Too short: 399 operations by 20 threads; a verdict takes 400");
  // Long operations, of which a thread needs two.
  EXPECT_EQ(why(160, 500, 80, 64), "");
  EXPECT_EQ(why(159, 500, 80, 64), "Too short: 159 operations by 80 threads; a verdict takes 160");
  EXPECT_EQ(why(400, 600, 20), "");
  EXPECT_EQ(why(400, 400, 20), "");
  EXPECT_EQ(why(400, 601, 20),
            "Too short: the second half of 400 operations had 1.51 times the throughput of the first");
  EXPECT_EQ(why(400, 399, 20),
            "Too short: the second half of 400 operations had 0.66 times the throughput of the first");
}

TEST(study_claims, of_one_map_that_ran_too_short_are_not_judged) {
  reading one = steady(150);
  one.too_short = "Too short: so few";
  const readings measured = of({{"a", one}, {"b", steady(100)}, {"c", steady(90)}});
  const judgement found = faster("a", "b")(measured, million);
  EXPECT_EQ(found.verdict, too_short);
  EXPECT_EQ(to_string(found.verdict), "not judged: the run is too short");
  EXPECT_THAT(found.sentence, EndsWith(" Too short: so few (a)."));
  for (const judge& other :
       {mean_ratio({{"b", "c"}, {"a", "b"}}, 1.2), ordered({{"first", {"a"}}, {"next", {"c"}}}),
        none_is_best({"b"}, {"a"}), alike("b", "a")})
    EXPECT_EQ(verdict(other, measured), too_short);
  EXPECT_EQ(verdict(faster("b", "c"), measured), agrees);
  EXPECT_EQ(verdict(faster("a", "absent"), measured), unknown);
}

TEST(atc18_study, judges_nothing_over_readings_that_are_too_short) {
  for (const atc18::figure& f : atc18::figures()) {
    readings all;
    reading one = steady(100);
    one.too_short = "Too short";
    for (const auto& group : f.groups) {
      for (const atc18::subject& s : group) {
        for (const std::uint64_t keys : f.keys) all.add(s.name(), keys, one);
      }
    }
    for (const judged_claim& found : judge_all(f.claims, all, f.keys)) {
      if (found.ours.verdict == unknown) continue;  // for another reason
      EXPECT_EQ(found.ours.verdict, too_short) << f.id;
      EXPECT_THAT(found.ours.sentence, HasSubstr("Too short (")) << f.id;
    }
  }
}

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

/// Times of the paper, in seconds, and what it says of sets, pages and locks.
dbx::results papers_database() {
  dbx::results all;
  for (const dbx::page& p : dbx::pages_of("s")) {
    for (const dbx::configuration& c : p.configurations()) {
      const bool apart = c.where == dbx::memory::segregated;
      const bool is_48 = c.index == "edge_int_lf/published";
      const bool fast = c.index.starts_with("occ_avl");
      dbx::database_reading r;
      // Four classes alone and segregated; in one heap log_int is among the first, and ticket with ext_lf.
      const bool slow = c.index == "ticket" || c.index == "ext_lf";
      r.speed = fast ? 4 : !slow ? 3 : c.index == "ticket" || (c.what == dbx::work::ycsb && !apart) ? 2 : 1;
      if (c.what == dbx::work::ycsb && !apart && c.index == "log_int") r.speed = 4;
      if (c.what == dbx::work::ycsb && !apart && c.index == "edge_ext_lf_2") r.speed = 2.5;
      r.index_time = 400 / r.speed;
      r.rest_time = 67;
      if (c.what == dbx::work::ycsb && fast) r.index_time = apart ? 108 : 121;
      if (c.what == dbx::work::ycsb && fast && apart) r.rest_time = 70;
      if (is_48) {
        r.rest_time = apart && c.lock_bytes == 48 ? 67 : 58;
        if (c.lock_bytes == 192) r.index_time = apart ? 90 : 100;
      }
      if (c.what == dbx::work::tpcc) {
        r.index_time = apart ? 95 : c.index.ends_with("/published") ? 108 : 105;
        r.rest_time = apart ? 137 : c.index.ends_with("/published") ? 141 : 135;
        if (c.index == "int_lf/wide_descriptors") {
          r.index_time = apart ? 97 : 113;
          r.rest_time = apart ? 140 : 135;
        }
      }
      r.index_stalls = r.index_time;
      r.stalls = *r.index_time + *r.rest_time;
      r.page_walks = apart ? 161 : 412;
      r.false_transfers = c.lock_bytes == 192 ? 0 : apart ? 3 : 1;
      r.unused_llc = fast && !apart ? 2.0 / 3 : 0;
      r.chunks = 1000;
      r.runs = apart ? 4 : 500;
      r.huge_pages = is_48 ? 20 : 6;
      all.add(c, r);
    }
  }
  return all;
}

TEST(oltp_study, agrees_with_the_numbers_of_the_paper) {
  const dbx::results measured = papers_database();
  std::size_t judged = 0;
  for (const dbx::page& p : dbx::pages_of("s")) {
    for (const judged_claim& c : p.judge(measured)) {
      EXPECT_EQ(c.ours.verdict, agreement::agrees) << p.id << ": " << c.claim << ": " << c.ours.sentence;
      ++judged;
    }
    EXPECT_TRUE(p.figure(measured, "").missing.empty()) << p.id;
    EXPECT_FALSE(p.figure(measured, "").charts.empty()) << p.id;
  }
  EXPECT_GE(judged, 30U);
}

TEST(oltp_study, a_change_of_less_than_half_of_the_papers_differs) {
  const auto verdict_with = [](double index_of_segregated) {
    dbx::results measured = papers_database();
    const dbx::configuration c{dbx::work::ycsb, "occ_avl", dbx::memory::segregated, 192};
    dbx::database_reading r = *measured.find(c);
    r.index_time = index_of_segregated;
    measured.add(c, r);
    for (const dbx::page& p : dbx::pages_of("s")) {
      for (const judged_claim& found : p.judge(measured)) {
        if (found.claim.starts_with("Segregation reduces the time of occ_avl's index"))
          return found.ours.verdict;
      }
    }
    return too_short;
  };
  EXPECT_EQ(verdict_with(114.4), agreement::agrees);
  EXPECT_EQ(verdict_with(114.6), agreement::differs);
  EXPECT_EQ(verdict_with(125), agreement::differs);
}

TEST(oltp_study, judges_nothing_over_what_is_missing_not_counted_or_too_short) {
  dbx::results nothing, uncounted, short_runs;
  for (const dbx::page& p : dbx::pages_of("s")) {
    for (const dbx::configuration& c : p.configurations()) {
      nothing.miss(c, "not in this build");
      uncounted.add(c, {});
      dbx::database_reading r = *papers_database().find(c);
      r.too_short = "Too short";
      short_runs.add(c, r);
    }
  }
  for (const dbx::page& p : dbx::pages_of("s")) {
    for (const judged_claim& c : p.judge(nothing)) {
      EXPECT_EQ(c.ours.verdict, agreement::not_measurable) << c.claim;
      EXPECT_THAT(c.ours.sentence, HasSubstr("not in this build")) << c.claim;
    }
    EXPECT_FALSE(p.figure(nothing, "").missing.empty());
    for (const judged_claim& c : p.judge(short_runs)) EXPECT_EQ(c.ours.verdict, too_short) << c.claim;
    for (const judged_claim& c : p.judge(uncounted))
      EXPECT_NE(c.ours.verdict, agreement::agrees) << c.claim << ": " << c.ours.sentence;
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

/// Of every engine under every load.
caches::results all_alike(const std::vector<caches::page>& pages, const caches::load_reading& r) {
  caches::results all;
  for (const caches::page& p : pages) {
    for (const caches::load& l : p.loads) {
      for (const caches::engine e : caches::all_engines) all.add(l, e, r);
    }
  }
  return all;
}

TEST(cache_study, judges_each_claim_by_its_bound_and_nothing_over_readings_that_are_too_short) {
  using caches::engine;
  const std::vector<caches::page> pages = caches::pages_of({1, 20, 40, 80});
  const caches::results alike = all_alike(pages, {.speed = 1, .remote_transfers = 1, .p99 = 1});
  const caches::results brief = all_alike(pages, {.speed = 1, .too_short = "Too short"});
  std::size_t judged = 0;
  for (const caches::page& p : pages) {
    for (const judged_claim& c : p.judge(alike)) {
      EXPECT_NE(c.ours.verdict, unknown) << c.claim;
      judged += c.ours.verdict == agrees ? 1 : 0;
    }
    for (const judged_claim& c : p.judge(brief)) {
      const bool is_of_counts = c.claim.find("Hit ratios") != std::string::npos ||
                                c.claim.find("its own thread") != std::string::npos;
      EXPECT_EQ(c.ours.verdict == too_short, !is_of_counts) << c.claim;
    }
  }
  EXPECT_EQ(judged, 10U) << "where all are alike, what says that one is no worse";

  const auto first = [&](const caches::results& of, std::size_t claim) {
    return pages[0].judge(of)[claim].ours;
  };
  const caches::load at = caches::few_sets_of(80);
  caches::results measured = alike;
  measured.add(at, engine::dps, {.speed = 2.1, .remote_transfers = 0.4});
  EXPECT_EQ(first(measured, 0).verdict, agrees) << "half of the paper's difference";
  EXPECT_EQ(first(measured, 1).verdict, agrees) << "at most half of the lines";
  measured.add(at, engine::dps, {.speed = 2, .remote_transfers = 0.6, .stall_cycles = 77});
  EXPECT_EQ(first(measured, 0).verdict, differs);
  EXPECT_THAT(first(measured, 0).sentence, HasSubstr("77 stalled cycles in DPS"));
  EXPECT_EQ(first(measured, 1).verdict, differs);
  measured.add(at, engine::stock, {.p99 = 13});
  measured.add(at, engine::dps, {.p99 = 1});
  EXPECT_EQ(pages[4].judge(measured)[0].ours.verdict, agrees);
  measured.add(at, engine::dps, {.p99 = 2});
  EXPECT_EQ(pages[4].judge(measured)[0].ours.verdict, differs);
  EXPECT_EQ(caches::equal_hits(measured, {at}).ours.verdict, agrees);
  measured.add(at, engine::ffwd, {.hits = 0.98});
  EXPECT_EQ(caches::equal_hits(measured, {at}).ours.verdict, differs);
  EXPECT_EQ(caches::misses_of_own_sets(measured, at).ours.verdict, agrees);
  measured.add(at, engine::dps_parsec_fenced, {.overwritten = 0.01});
  EXPECT_EQ(caches::misses_of_own_sets(measured, at).ours.verdict, differs);
  EXPECT_NO_THROW(caches::check_contents(engine::stock, at, 0, 0));
  EXPECT_THROW(caches::check_contents(engine::stock, at, 1, 0), std::logic_error);
  EXPECT_THROW(caches::check_contents(engine::stock, at, 0, 1), std::logic_error);
}

TEST(cache_study, a_value_tells_its_key_its_thread_and_its_turn) {
  using finding = caches::own_values::finding;
  constexpr std::size_t bytes = 64;
  using value = std::array<std::byte, bytes>;
  std::vector<caches::own_values> threads{{0, 10, bytes}, {1, 10, bytes}};
  value start;
  value older;
  value newer;
  value others;
  caches::own_values::make_first(3, start.data(), bytes);
  EXPECT_EQ(threads[0].judge(3, start.data()), finding::right);
  EXPECT_TRUE(caches::own_values::is_last(3, start.data(), threads));
  threads[0].make_next(3, older.data());
  EXPECT_EQ(threads[0].judge(3, start.data()), finding::overwritten);
  EXPECT_EQ(threads[1].judge(3, start.data()), finding::right) << "it may not know";
  EXPECT_FALSE(caches::own_values::is_last(3, start.data(), threads)) << "a set was lost";
  threads[0].make_next(3, newer.data());
  threads[1].make_next(3, others.data());
  EXPECT_EQ(threads[0].judge(3, older.data()), finding::overwritten);
  EXPECT_EQ(threads[0].judge(3, newer.data()), finding::right);
  EXPECT_EQ(threads[0].judge(3, others.data()), finding::right);
  EXPECT_FALSE(caches::own_values::is_last(3, older.data(), threads));
  EXPECT_TRUE(caches::own_values::is_last(3, newer.data(), threads));
  EXPECT_TRUE(caches::own_values::is_last(3, others.data(), threads));
  EXPECT_EQ(threads[0].judge(4, newer.data()), finding::wrong) << "another key's";
  value torn = newer;
  torn[bytes - 1] ^= std::byte{1};
  EXPECT_EQ(threads[0].judge(3, torn.data()), finding::wrong);
  std::copy_n(others.begin(), bytes / 2, torn.begin());
  EXPECT_EQ(threads[1].judge(3, torn.data()), finding::wrong);
}

/// What is said of each machine where every operation takes so long, by every number of threads.
std::vector<judged_claim> calibrated(const char* machine, const calibration::exercise_reading& each) {
  const calibration::setting where{.machine = machine,
                                   .ghz = 2,
                                   .sockets = 4,
                                   .socket_cores = 10,
                                   .transactions = true,
                                   .threads = {1, 2, 10, 40}};
  calibration::results measured;
  charted_figure all;
  for (const calibration::page& p : calibration::pages_of(where)) {
    for (const calibration::exercise& e : p.exercises) measured.add(e, each);
    p.show(measured, all);
  }
  return all.findings;
}

TEST(calibration_study, a_number_agrees_within_a_factor_of_the_published_one) {
  const auto verdict_of = [](const std::string& claim, double cycles) {
    for (const judged_claim& c : calibrated("e7_4850:no-links", {.speed = 1, .cycles = cycles}))
      if (c.claim.starts_with(claim)) return c.ours.verdict;
    return unknown;
  };
  const std::string modified = "load, modified, this socket: 109 cycles";
  for (const auto& [cycles, found] :
       std::map<double, agreement>{{72, differs}, {73, agrees}, {109, agrees}, {163, agrees}, {164, differs}})
    EXPECT_EQ(verdict_of(modified, cycles), found) << cycles;
  EXPECT_EQ(verdict_of("Without contention an operation across sockets", 100), differs);
  EXPECT_EQ(verdict_of("Under low contention a ticket lock", 100), agrees);
}

TEST(calibration_study, judges_nothing_over_readings_that_are_too_short) {
  for (const judged_claim& c :
       calibrated("abu_dhabi", {.speed = 1, .cycles = 100, .too_short = "Too short"})) {
    EXPECT_EQ(c.ours.verdict, too_short) << c.claim;
    EXPECT_THAT(c.ours.sentence, StartsWith("Too short (")) << c.claim;
  }
}

TEST(study_claims, numbers_are_grouped) {
  for (const auto& [number, text] : std::map<std::uint64_t, std::string>{
           {7, "7"}, {999, "999"}, {1000, "1,000"}, {12'345'678, "12,345,678"}})
    EXPECT_EQ(grouped(number), text);
}

}  // namespace

namespace malloc_speed {
namespace {

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
}  // namespace malloc_speed

namespace malloc_tsx {
namespace {

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

TEST(charted_figure, becomes_json_as_the_report_reads_it) {
  charted_figure f{.id = "a", .title = "A", .summary = "s"};
  f.charts.push_back({.title = "t",
                      .caption = "c",

                      .y = "y",
                      .x = "x",
                      .curves = {{"n", {{64, 0.5}}}},
                      .limit = {{8, "w"}}});
  f.charts.push_back(
      {.title = "b", .caption = "c", .y = "y", .bars = {{"m", 2, 1, 3}, {"p", 4, {}, {}, true}}});
  f.missing.push_back({"m", "why"});
  f.findings.push_back({"claim", {"so it is.", agreement::differs}, false});
  const auto j = to_json(f);
  EXPECT_EQ(
      j["charts"][0].dump(),
      R"({"title":"t","caption":"c","x":"x","y":"y","series":[{"name":"n","points":[[64.0,0.5]]}],"limit":{"y":8.0,"name":"w"}})");
  EXPECT_EQ(
      j["charts"][1].dump(),
      R"({"title":"b","caption":"c","y":"y","of":"Malloc","bars":[{"name":"m","value":2.0,"least":1.0,"most":3.0},{"name":"p","value":4.0,"peer":true}]})");
  EXPECT_EQ(j["missing"].dump(), R"([{"map":"m","why":"why"}])");
  EXPECT_EQ(j["findings"].dump(),
            R"([{"paper":"claim","of_paper":false,"ours":"so it is.","verdict":"differs"}])");
  f.machine = "i7_4770";
  EXPECT_EQ(to_json(f)["findings"][0]["machine"], "i7_4770");
}

}  // namespace
}  // namespace malloc_tsx
}  // namespace espalier::app
