// Claims of the study of Eunomia, judged over readings of which it is known what they say, and its charts.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "apps/judged.hpp"
#include "apps/studies/eunomia/claims.hpp"
#include "espalier/measure/distribution.hpp"

namespace espalier::app::eunomia {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::SizeIs;

/// Readings of all pages, each made by `made(load, map)`.
template <class Make>
results readings_of(const setting& where, Make&& made) {
  results all;
  for (const page& p : pages_of(where)) {
    for (const load& l : p.loads) {
      for (const std::string& map : p.maps) all.add(l, map, made(l, map));
    }
  }
  return all;
}

std::vector<judged_claim> judged(const setting& where, const results& measured) {
  std::vector<judged_claim> all;
  for (const page& p : pages_of(where)) {
    for (judged_claim& c : p.judge(measured)) all.push_back(std::move(c));
  }
  return all;
}

std::size_t count_of(const std::vector<judged_claim>& claims, agreement verdict) {
  return static_cast<std::size_t>(std::ranges::count(verdicts(claims), verdict));
}

const setting papers_machine_here{.keys = 1000, .threads = {1, 4, 8, 16, 20}, .simulated = true};

/// About as the paper has it.
map_reading as_in_the_paper(const load& l, const std::string& map) {
  const bool baseline_map = map == baseline;
  const double theta = measure::distribution_spec::parse(l.distribution).parameters[0];
  const bool calm = l.distribution == "uniform" || (l.distribution.starts_with("zipfian") && theta < 0.55);
  double speed = l.threads;
  if (map == "masstree") speed *= 0.6;
  if (map == "htm_masstree") speed = 0.5 * std::min(l.threads, 8U) - 0.01 * l.threads;
  if (baseline_map && !calm) speed = l.threads <= 4 ? l.threads : 1 - 0.001 * l.puts;
  if (baseline_map && l.distribution.starts_with("normal")) speed = 1;
  for (const rung& r : ladder()) {
    if (r.contended && r.map == map && !calm) speed = *r.contended;
  }
  map_reading r{.speed = steady(speed)};
  r.work = map == "masstree" ? 210 : 100;
  r.bytes_per_key = baseline_map ? 20 : 21;
  r.aborts = {.by_cause = {{"true conflict", 0.1}, {"false conflict", 0.82}, {"metadata", 0.08}},
              .by_region = {{"upper", 0.05}, {"lower", 0.95}}};
  if (baseline_map && !calm) {
    for (auto& [cause, count] : r.aborts->by_cause) count *= 50;
  }
  return r;
}

TEST(eunomia_study, agrees_with_what_the_paper_found) {
  const auto claims = judged(papers_machine_here, readings_of(papers_machine_here, as_in_the_paper));
  for (const judged_claim& c : claims) {
    // Versions are not counted, and the paper's formula does not yield its share.
    const agreement expected = c.claim.find("checks or changes versions") != std::string::npos ? unknown
                               : c.claim.find("hottest tenth") != std::string::npos            ? differs
                                                                                               : agrees;
    EXPECT_EQ(c.ours.verdict, expected) << c.claim << '\n' << c.ours.sentence;
  }
  EXPECT_GT(claims.size(), 40U);
}

TEST(eunomia_study, differs_where_all_maps_are_alike) {
  const auto claims =
      judged(papers_machine_here, readings_of(papers_machine_here, [](const load&, const std::string&) {
               map_reading r{.speed = steady(100)};
               r.work = 100;
               r.bytes_per_key = 20;
               r.aborts = {.by_cause = {{"true conflict", 1}}, .by_region = {{"upper", 1}, {"lower", 1}}};
               return r;
             }));
  EXPECT_EQ(count_of(claims, unknown), 1U);
  std::vector<std::string> agreed;
  for (const judged_claim& c : claims) {
    if (c.ours.verdict == agrees) agreed.push_back(c.claim);
  }
  // That maps are alike, or lose little.
  EXPECT_THAT(agreed, SizeIs(14)) << ::testing::PrintToString(agreed);
}

TEST(eunomia_study, says_whose_doing_it_is_where_a_simulation_differs) {
  const auto reason_of = [](bool simulated, const std::string& claim) -> std::string {
    setting where = papers_machine_here;
    where.simulated = simulated;
    const results measured = readings_of(where, [](const load& l, const std::string&) {
      map_reading r{.speed = steady(l.threads)};
      r.work = 100;
      r.aborts = {.by_cause = {{"true conflict", 1}}, .by_region = {}};
      return r;
    });
    for (const judged_claim& c : judged(where, measured)) {
      if (c.claim.find(claim) == std::string::npos) continue;
      EXPECT_EQ(c.ours.verdict, differs) << c.claim;
      const std::size_t at = c.ours.sentence.find_last_of(':');
      return c.ours.sentence.substr(c.ours.sentence.find_last_of(' ', at) + 1);
    }
    return "no such claim";
  };
  // Of n keys with this deviation two draws are in one leaf of k with a probability of k / (2 * sqrt(pi) * deviation).
  EXPECT_EQ(
      reason_of(true, "Normal: htm_btree stays"),
      "Paper: with the stated share for the hottest tenth of its keys, two requests are for one leaf of 15 "
      "keys once in 1,212,358; 20 threads hardly ever conflict.");
  EXPECT_EQ(reason_of(true, "9 to 12 %"),
            "Model: of 1,000 keys the hottest receives 9.5 % of the requests, of the paper's 1.9 %.");
  EXPECT_EQ(reason_of(false, "Normal: htm_btree stays").find("Paper:"), std::string::npos);
}

TEST(eunomia_study, a_run_too_short_for_a_speed_tells_how_much_memory_a_map_has) {
  const auto claims =
      judged(papers_machine_here, readings_of(papers_machine_here, [](const load& l, const std::string& map) {
               map_reading r = as_in_the_paper(l, map);
               r.speed.too_short = "It is still warming up";
               return r;
             }));
  for (const judged_claim& c : claims) {
    if (c.claim.find("emory overhead") != std::string::npos)
      EXPECT_EQ(c.ours.verdict, agrees) << c.claim << c.ours.sentence;
    else
      EXPECT_NE(c.ours.verdict, agrees) << c.claim << c.ours.sentence;
  }
}

TEST(eunomia_study, decides_nothing_with_other_threads_but_what_calm_costs) {
  const setting two{.keys = 1000, .threads = {1, 2}};
  const results measured = readings_of(two, as_in_the_paper);
  for (const judged_claim& c : judged(two, measured)) {
    if (c.ours.verdict == unknown) continue;
    EXPECT_TRUE(c.claim.find("theta = 0.2") != std::string::npos ||
                c.claim.find("hottest tenth") != std::string::npos)
        << c.claim;
  }
  setting without = two;
  without.unjudged = "This processor has no transactions.";
  EXPECT_THAT(verdicts(judged(without, measured)), Each(unknown));
}

TEST(eunomia_study, the_library_claims_a_fifth_of_the_aborts_and_no_loss) {
  const setting where{.keys = verdict_keys, .threads = {1, 2}};
  const page p = verdict_page(where);
  const auto found = [&](double aborts, double speed, const page& shown) {
    results measured;
    const auto add = [&](const std::string& map, double faster, double more) {
      map_reading r{.speed = steady(faster)};
      r.aborts = {.by_cause = {{"conflict", more}}, .by_region = {}};
      measured.add(shown.loads.front(), map, r);
    };
    add(eunomia_tree, speed, aborts);
    add(baseline, 100, 1);
    add("masstree", 90, 0);
    return verdicts(shown.judge(measured));
  };
  EXPECT_THAT(found(0.2, 100, p), ElementsAre(agrees, agrees, agrees));
  EXPECT_THAT(found(0.21, 99, p), ElementsAre(differs, differs, agrees));
  EXPECT_THAT(found(0.1, 89, p), ElementsAre(agrees, differs, differs));
  EXPECT_THAT(found(0.1, 101, verdict_page({.keys = 1000, .threads = {2}})), Each(unknown));
  EXPECT_THAT(verdicts(p.judge({})), Each(unknown));
}

TEST(eunomia_figures, have_charts_of_all_that_was_measured) {
  const results measured = readings_of(papers_machine_here, as_in_the_paper);
  std::map<std::string, std::size_t> charts;
  for (const page& p : pages_of(papers_machine_here)) {
    const charted_figure f = figure_of(p, measured, papers_machine_here, "m");
    charts[f.id] = f.charts.size();
    for (const chart& c : f.charts) {
      EXPECT_FALSE(c.curves.empty()) << c.title;
      for (const chart_curve& curve : c.curves) {
        for (std::size_t i = 1; i < curve.points.size(); ++i)
          EXPECT_LT(curve.points[i - 1].first, curve.points[i].first) << c.title;
      }
    }
    EXPECT_TRUE(figure_of(p, {}, papers_machine_here, "m").charts.empty());
  }
  EXPECT_EQ(charts, (std::map<std::string, std::size_t>{{"skew", 1},
                                                        {"aborts", 6},
                                                        {"changes", 8},
                                                        {"threads", 4},
                                                        {"puts", 4},
                                                        {"distributions", 4},
                                                        {"ladder", 3},
                                                        {"memory", 2}}));
}

}  // namespace
}  // namespace espalier::app::eunomia
