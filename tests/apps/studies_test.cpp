// What studies have in common: forms of claims, judged over readings of which it is known what they say, and figures.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/judged.hpp"
#include "apps/simulate/counted_phase.hpp"
#include "apps/studies/study_claims.hpp"
#include "apps/studies/study_output.hpp"

namespace espalier::app {
namespace {

using namespace ::testing;

using found_claims = std::vector<std::pair<std::string, agreement>>;

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

TEST(study_claims, the_greatest_gain_is_that_of_the_best_pair) {
  const readings measured =
      of({{"a", steady(150)}, {"b", steady(100)}, {"c", steady(120)}, {"d", steady(100)}});
  EXPECT_EQ(verdict(best_ratio({{"c", "d"}, {"a", "b"}}, 1.86), measured), agrees);
  EXPECT_EQ(verdict(best_ratio({{"c", "d"}}, 1.86), measured), differs);
  EXPECT_EQ(verdict(gains_more({"a", "b"}, {"c", "d"}), measured), agrees);
  EXPECT_EQ(verdict(gains_more({"c", "d"}, {"a", "b"}), measured), differs);
  EXPECT_EQ(verdict(gains_more({"c", "d"}, {"c", "d"}), measured), differs);
  EXPECT_EQ(verdict(slowest("b", {"a", "c"}), measured), agrees);
  EXPECT_EQ(verdict(slowest("b", {"a", "c", "d"}), measured), differs);
}

TEST(study_claims, an_order_is_kept_where_few_pairs_turn_and_ratios_where_most_stay) {
  const renamed later = [](const std::string& map) { return map + "2"; };
  const auto with = [](double a, double b, double c) {
    return of({{"a", steady(130)},
               {"b", steady(120)},
               {"c", steady(100)},
               {"a2", steady(a)},
               {"b2", steady(b)},
               {"c2", steady(c)}});
  };
  const std::vector<std::string> maps{"a", "b", "c"};
  EXPECT_EQ(verdict(order_kept(maps, later), with(13, 12, 10)), agrees);
  EXPECT_EQ(verdict(order_kept(maps, later), with(10, 9.9, 9.8)), agrees);
  EXPECT_EQ(verdict(order_kept(maps, later), with(99, 100, 90)), agrees);  // less than a difference
  const judgement turned = order_kept(maps, later)(with(12, 13, 10), million);
  EXPECT_EQ(turned.verdict, differs);
  EXPECT_THAT(turned.sentence, HasSubstr("2 of 3 pairs that differ have the same order; not a over b (1.08, "
                                         "then 0.92)"));
  EXPECT_EQ(verdict(ratios_kept(maps, later), with(13, 12, 10)), agrees);
  EXPECT_EQ(verdict(ratios_kept(maps, later), with(13, 12, 15)), differs);  // of a and b alone
  EXPECT_EQ(verdict(ratios_kept(maps, later), with(13, 12, 11)), agrees);
  // What rounds do not tell is undecided.
  readings wide = with(13, 12, 10);
  wide.add("a2", million, {12, 9, 15, {}});
  EXPECT_EQ(verdict(order_kept(maps, later), wide), unknown);
}

TEST(study_claims, a_map_scales_if_each_step_gains) {
  const std::vector<renamed> steps{[](const std::string& map) { return map + "1"; },
                                   [](const std::string& map) { return map + "2"; },
                                   [](const std::string& map) { return map + "4"; }};
  const auto with = [](double two, double four, unsigned most = 4) {
    readings measured;
    const auto add = [&](const std::string& name, double speed, unsigned threads) {
      reading r = steady(speed);
      r.threads = threads;
      measured.add(name, million, r);
    };
    add("a1", 100, 1);
    add("a2", two, std::min(2U, most));
    add("a4", four, most);
    return measured;
  };
  EXPECT_EQ(verdict(scales({"a"}, steps), with(190, 380)), agrees);
  EXPECT_EQ(verdict(scales({"a"}, steps), with(190, 191)), differs);
  EXPECT_THAT(scales({"a"}, steps)(with(190, 191), million).sentence, HasSubstr("a from 2 to 4 threads"));
  EXPECT_EQ(verdict(does_not_scale("a", steps), with(190, 199)), agrees);
  EXPECT_EQ(verdict(does_not_scale("a", steps), with(190, 201)), differs);
  // One number of threads, or two: what is the same is no step.
  EXPECT_EQ(verdict(scales({"a"}, steps), with(100, 100, 1)), unknown);
  EXPECT_EQ(verdict(does_not_scale("a", steps), with(100, 100, 1)), unknown);
  EXPECT_EQ(verdict(scales({"a"}, steps), with(190, 190, 2)), agrees);
}

TEST(study_claims, counts_are_near_up_to_a_factor_of_two_and_shares_up_to_ten_points) {
  reading r = steady(100);
  EXPECT_EQ(verdict(costs_near("a", "misses", &operation_costs::l2_misses, 10), of({{"a", r}})), unknown);
  EXPECT_EQ(verdict(unused_sets("a", 0, 0.5, 0.5), of({{"a", r}})), unknown);
  r.costs =
      operation_costs{.accesses = 1, .memory_lines = 1, .page_walks = 1, .l2_misses = 5.1, .llc_misses = 4.9};
  r.places = node_places{.unused_l1 = 0, .unused_l2 = 0.45, .unused_llc = 0.55, .leaf_in_line = 0.66};
  const readings measured = of({{"a", r}});
  EXPECT_EQ(verdict(costs_near("a", "misses", &operation_costs::l2_misses, 10), measured), agrees);
  EXPECT_EQ(verdict(costs_near("a", "misses", &operation_costs::llc_misses, 10), measured), differs);
  EXPECT_EQ(verdict(costs_near("a", "misses", &operation_costs::llc_misses, 2), measured), differs);
  EXPECT_EQ(verdict(unused_sets("a", 0, 0.5, 0.5), measured), agrees);
  EXPECT_EQ(verdict(unused_sets("a", 0.2, 0.5, 0.5), measured), differs);
  EXPECT_EQ(verdict(unused_sets("a", 0, 0.3, 0.5), measured), differs);
  EXPECT_EQ(verdict(unused_sets("a", 0, 0.5, 0), measured), differs);
  EXPECT_EQ(verdict(leaves_near("a", "nodes", &node_places::leaf_in_line, 0.75), measured), agrees);
  EXPECT_EQ(verdict(leaves_near("a", "nodes", &node_places::leaf_in_line, 1), measured), differs);
  EXPECT_EQ(verdict(leaves_near("a", "nodes", &node_places::leaf_in_next_line, 0), measured), unknown);
}

TEST(study_claims, a_difference_of_a_simulation_says_whose_it_is) {
  const std::vector<claim> claims{{"a is faster", {}, faster("a", "b"), "", true, "Model: none."}};
  const auto sentence = [&](const std::string& machine, double speed) {
    return judge_all(claims, of({{"a", steady(speed)}, {"b", steady(100)}}, machine), {million})
        .front()
        .ours.sentence;
  };
  EXPECT_THAT(sentence("haswell", 90), EndsWith(" Model: none."));
  EXPECT_THAT(sentence("haswell", 110), Not(HasSubstr("Model")));
  EXPECT_THAT(sentence("", 90), Not(HasSubstr("Model")));
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

TEST(simulated_phase, is_run_again_with_more_operations_until_its_halves_are_alike) {
  const auto phases = [](unsigned most) {
    std::vector<std::uint64_t> run;
    const simulate::counted_phase last = simulate::run_until_even(20, most, [&](std::uint64_t count) {
      run.push_back(count);
      return simulate::counted_phase{count, {}, {}, 1000, 1, count < 100 ? 200U : 500U};
    });
    EXPECT_EQ(last.operations, run.back());
    return run;
  };
  EXPECT_EQ(phases(1), (std::vector<std::uint64_t>{20}));
  EXPECT_EQ(phases(2), (std::vector<std::uint64_t>{20, 80}));
  EXPECT_EQ(phases(9), (std::vector<std::uint64_t>{20, 80, 320}));
}

TEST(study_claims, in_parts_differ_where_a_part_does_whatever_the_others_say) {
  const auto verdict_of = [](const judged_as& parts) {
    claim_in_parts<int> claim{"claim", {}};
    claim.why = [](const int& why) { return "Program: " + std::to_string(why) + "."; };
    for (std::size_t i = 0; i < parts.size(); ++i)
      claim.parts.emplace_back(
          [=](const int&) { return judgement{"Part " + std::to_string(i) + ".", parts[i]}; });
    const judged_claim found = claim.judged(7);
    EXPECT_EQ(found.ours.sentence.find("Program: 7.") != std::string::npos, found.ours.verdict == differs);
    return found.ours.verdict;
  };
  EXPECT_EQ(verdict_of({agrees, agrees}), agrees);
  EXPECT_EQ(verdict_of({agrees, too_short}), too_short);
  EXPECT_EQ(verdict_of({too_short, unknown, agrees}), unknown);
  for (const agreement other : {agrees, too_short, unknown}) {
    EXPECT_EQ(verdict_of({other, differs}), differs);
    EXPECT_EQ(verdict_of({differs, other}), differs);
  }
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

TEST(study_claims, numbers_are_grouped) {
  for (const auto& [number, text] : std::map<std::uint64_t, std::string>{
           {7, "7"}, {999, "999"}, {1000, "1,000"}, {12'345'678, "12,345,678"}})
    EXPECT_EQ(grouped(number), text);
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
}  // namespace espalier::app
