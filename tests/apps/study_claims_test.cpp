#include "apps/studies/study_claims.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "apps/studies/atc18/claims.hpp"

namespace espalier::app {
namespace {

constexpr std::uint64_t million = 1'000'000;

reading steady(double speed) { return {speed, speed, speed, std::nullopt}; }

readings of(const std::map<std::string, reading>& maps, const std::string& machine = {}) {
  readings all(machine);
  for (const auto& [map, r] : maps) all.add(map, million, r);
  return all;
}

agreement verdict(const judge& holds, const readings& measured) { return holds(measured, million).verdict; }

TEST(study_claims, half_of_the_papers_difference_is_enough) {
  const judge holds = faster("a", "b", 1.4);
  EXPECT_EQ(verdict(holds, of({{"a", steady(121)}, {"b", steady(100)}})), agreement::agrees);
  EXPECT_EQ(verdict(holds, of({{"a", steady(119)}, {"b", steady(100)}})), agreement::differs);
  EXPECT_EQ(verdict(holds, of({{"a", steady(70)}, {"b", steady(100)}})), agreement::differs);
  const auto says_direction = [&](double a) {
    const judgement j = holds(of({{"a", steady(a)}, {"b", steady(100)}}), million);
    return j.sentence.find("direction is the paper's") != std::string::npos;
  };
  EXPECT_TRUE(says_direction(119));
  EXPECT_FALSE(says_direction(70));
  EXPECT_FALSE(says_direction(130));
}

TEST(study_claims, an_order_needs_little) {
  EXPECT_EQ(verdict(faster("a", "b"), of({{"a", steady(103)}, {"b", steady(100)}})), agreement::agrees);
  EXPECT_EQ(verdict(faster("a", "b"), of({{"a", steady(101)}, {"b", steady(100)}})), agreement::differs);
  EXPECT_EQ(verdict(far_faster("a", "b"), of({{"a", steady(201)}, {"b", steady(100)}})), agreement::agrees);
  EXPECT_EQ(verdict(far_faster("a", "b"), of({{"a", steady(199)}, {"b", steady(100)}})), agreement::differs);
}

TEST(study_claims, runs_that_do_not_tell_decide_nothing) {
  const readings wide = of({{"a", {150, 90, 160, {}}}, {"b", {100, 95, 140, {}}}});
  EXPECT_EQ(verdict(faster("a", "b", 1.4), wide), agreement::not_measurable);
  EXPECT_NE(faster("a", "b", 1.4)(wide, million).sentence.find("0.64 to 1.68"), std::string::npos);
}

TEST(study_claims, the_same_is_within_a_tenth) {
  EXPECT_EQ(verdict(alike("a", "b"), of({{"a", steady(109)}, {"b", steady(100)}})), agreement::agrees);
  EXPECT_EQ(verdict(alike("a", "b"), of({{"a", steady(100)}, {"b", steady(109)}})), agreement::agrees);
  EXPECT_EQ(verdict(alike("a", "b"), of({{"a", steady(112)}, {"b", steady(100)}})), agreement::differs);
  EXPECT_EQ(verdict(alike("a", "b"), of({{"a", {112, 105, 120, {}}}, {"b", steady(100)}})),
            agreement::not_measurable);
}

TEST(study_claims, what_is_missing_is_named_and_decides_nothing) {
  const readings one = of({{"a", steady(100)}, {"c", steady(50)}});
  for (const judge& holds :
       {faster("a", "b", 1.4), alike("a", "b"), far_faster("a", "b"),
        mean_ratio({{"a", "c"}, {"a", "b"}}, 1.1), ordered({{"x", {"a"}}, {"y", {"b"}}}),
        none_is_best({"a"}, {"b"}), crossing_cost({{"a", "b"}}, 1.2), no_crossing_cost({{"a", "b"}})}) {
    const judgement j = holds(one, million);
    EXPECT_EQ(j.verdict, agreement::not_measurable);
    EXPECT_NE(j.sentence.find("Not measured: b."), std::string::npos) << j.sentence;
  }
}

TEST(study_claims, means_are_geometric) {
  const readings measured =
      of({{"a", steady(400)}, {"b", steady(100)}, {"c", steady(100)}, {"d", steady(100)}});
  const judgement j = mean_ratio({{"a", "b"}, {"c", "d"}}, 2)(measured, million);
  EXPECT_EQ(j.verdict, agreement::agrees);
  EXPECT_NE(j.sentence.find("is 2.00"), std::string::npos) << j.sentence;
  EXPECT_EQ(verdict(mean_ratio({{"b", "a"}, {"d", "c"}}, 2), measured), agreement::differs);
}

TEST(study_claims, tiers_are_compared_with_the_next) {
  const std::vector<tier> tiers{{"fast", {"a", "b"}}, {"middle", {"c"}}, {"slow", {"d"}}};
  const auto with = [](double c, double d) {
    return of({{"a", steady(100)}, {"b", steady(90)}, {"c", steady(c)}, {"d", steady(d)}});
  };
  EXPECT_EQ(verdict(ordered(tiers), with(80, 70)), agreement::agrees);
  EXPECT_EQ(verdict(ordered(tiers), with(80, 85)), agreement::differs);
  EXPECT_EQ(verdict(ordered(tiers), with(80, 80)), agreement::differs);  // one class, not two
  EXPECT_EQ(verdict(ordered(tiers), with(80, 79)), agreement::differs);
  EXPECT_EQ(verdict(ordered(tiers), with(99, 70)), agreement::differs);
  EXPECT_EQ(verdict(none_is_best({"a", "b"}, {"c", "d"}), with(99, 70)), agreement::differs);
  EXPECT_EQ(verdict(none_is_best({"a", "b"}, {"c", "d"}), with(103, 70)), agreement::agrees);
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
    EXPECT_EQ(j.verdict, agreement::differs);
    EXPECT_NE(j.sentence.find("161 accesses, 5.63 lines from memory, 0.00 page walks, nodes of 56 bytes in"),
              std::string::npos)
        << j.sentence;
    EXPECT_NE(j.sentence.find("80 accesses, 5.79 lines"), std::string::npos) << j.sentence;
  }
  const judgement tiers = ordered({{"the first", {"a"}}, {"the rest", {"b", "c"}}})(measured, million);
  EXPECT_NE(tiers.sentence.find("Not apart: the first and the rest, 1.00 times."), std::string::npos)
      << tiers.sentence;
  EXPECT_NE(
      tiers.sentence.find("100 accesses, 6.00 lines from memory, 0.01 page walks, nodes of 32 to 64 bytes"),
      std::string::npos)
      << tiers.sentence;
  // What holds needs no reason, and where nothing is known none is made up.
  EXPECT_EQ(faster("b", "c")(measured, million).sentence.find("costs"), std::string::npos);
  const readings bare = of({{"a", steady(100)}, {"b", steady(101)}});
  EXPECT_EQ(faster("a", "b")(bare, million).sentence.find("costs"), std::string::npos);
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
    EXPECT_EQ(holds(with(1), million).verdict, agreement::agrees);
    EXPECT_EQ(holds(with(2), million).verdict, agreement::not_measurable);  // rounds of another session
  }
  EXPECT_EQ(faster("b", "a")(with(1), million).verdict, agreement::differs);
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
  EXPECT_EQ(verdict(crossing_cost(pairs, 1.2), with(85, 40)), agreement::agrees);
  EXPECT_EQ(verdict(crossing_cost(pairs, 1.2), with(99, 40)), agreement::differs);
  EXPECT_EQ(verdict(crossing_cost(pairs, 1.2), with(85, 32)), agreement::not_measurable);
  EXPECT_EQ(verdict(no_crossing_cost(pairs), with(99, 40)), agreement::agrees);
  EXPECT_EQ(verdict(no_crossing_cost(pairs), with(85, 40)), agreement::differs);
  EXPECT_EQ(verdict(no_crossing_cost(pairs), with(99, 32)), agreement::not_measurable);
}

TEST(study_claims, are_judged_where_and_at_what_size_the_paper_has_them) {
  const judge holds = faster("a", "b", 1.4);
  const std::vector<claim> claims{{"of all machines", {million}, holds},
                                  {"of haswell", {million}, holds, "haswell"},
                                  {"of haswell alone", {million}, holds, "haswell", false},
                                  {"of any size", {}, holds}};
  const auto judged = [&](const std::string& machine, const std::vector<std::uint64_t>& keys) {
    readings measured(machine);
    for (const std::uint64_t k : keys) {
      measured.add("a", k, steady(150));
      measured.add("b", k, steady(100));
    }
    std::vector<std::pair<std::string, agreement>> found;
    for (const finding& f : judge_all(claims, measured, keys))
      found.emplace_back(f.paper + " " + std::to_string(f.keys), f.ours.verdict);
    return found;
  };
  using enum agreement;
  using expected = std::vector<std::pair<std::string, agreement>>;
  EXPECT_EQ(judged("haswell", {million}), (expected{{"of all machines 1000000", agrees},
                                                    {"of haswell 1000000", agrees},
                                                    {"of haswell alone 1000000", agrees},
                                                    {"of any size 1000000", agrees}}));
  EXPECT_EQ(judged("abu_dhabi", {million}),
            (expected{{"of all machines 1000000", agrees}, {"of any size 1000000", agrees}}));
  EXPECT_EQ(judged("", {million}), (expected{{"of all machines 1000000", agrees},
                                             {"of haswell 1000000", agrees},
                                             {"of haswell alone 1000000", not_measurable},
                                             {"of any size 1000000", agrees}}));
  EXPECT_EQ(judged("haswell", {500}), (expected{{"of all machines 500", not_measurable},
                                                {"of haswell 500", not_measurable},
                                                {"of haswell alone 500", not_measurable},
                                                {"of any size 500", agrees}}));
  EXPECT_EQ(judged("abu_dhabi", {500, million}), (expected{{"of all machines 1000000", agrees},
                                                           {"of any size 500", agrees},
                                                           {"of any size 1000000", agrees}}));
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
    for (const finding& found : judge_all(f.claims, all, f.keys))
      EXPECT_EQ(found.ours.sentence.find("Not measured"), std::string::npos)
          << f.id << ": " << found.ours.sentence;
  }
}

TEST(study_claims, numbers_are_grouped) {
  EXPECT_EQ(grouped(7), "7");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(12'345'678), "12,345,678");
}

}  // namespace
}  // namespace espalier::app
