#include "apps/studies/malloc_tsx/figures.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace espalier::app::malloc_tsx {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

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
  EXPECT_THAT(c.curves[0].points, ElementsAre(Pair(496, 0.5)));
  EXPECT_THAT(c.curves[1].points, ElementsAre(Pair(496, 1.0)));
  EXPECT_EQ(c.curves[2].name, "index-aware, tle-learnt");
  EXPECT_THAT(c.curves[2].points, ElementsAre(Pair(512, 1.5)));
  EXPECT_THAT(c.curves[3].points, ElementsAre(Pair(496, 1.0), Pair(512, 1.0)));
}

TEST(malloc_tsx_figures, loads_of_rings_are_held_against_the_ways) {
  const auto charts = charts_of(some(), true, {.ways = 12});
  EXPECT_THAT(titles(charts), ElementsAre("Throughput", "Nodes at the fullest index",
                                          "Sections that were elided", "Aborts for capacity"));
  EXPECT_THAT(charts[1].limit, ::testing::Optional(::testing::Field(&chart_limit::y, 12)));
  EXPECT_EQ(charts[1].y, "nodes");
  EXPECT_THAT(charts[1].curves[0].points, ElementsAre(Pair(496, 16)));
  EXPECT_THAT(titles(charts_of(some(), false, {.ways = 12})),
              ElementsAre("Throughput", "Sections that were elided", "Aborts for capacity"));
}

TEST(malloc_tsx_figures, what_is_elided_is_drawn_where_there_are_transactions) {
  const auto charts = charts_of(some(), false, {.ways = 12});
  ASSERT_EQ(charts[1].curves.size(), 1U) << "a lock that learns is another matter";
  EXPECT_THAT(charts[1].curves[0].points, ElementsAre(Pair(496, 0.25)));
  EXPECT_THAT(charts[2].curves[0].points, ElementsAre(Pair(496, 0.5)));
  placed_readings plain;
  plain.add({"glibc", "tts", 64}, {{1}, 1, {}, {}});
  EXPECT_THAT(titles(charts_of(plain, true, {.ways = 12})), ElementsAre("Nodes at the fullest index"))
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
      R"({"title":"t","caption":"c","x":"x","y":"y","series":[{"name":"n","points":[[64,0.5]]}],"limit":{"y":8.0,"name":"w"}})");
  EXPECT_EQ(
      j["charts"][1].dump(),
      R"({"title":"b","caption":"c","y":"y","bars":[{"name":"m","value":2.0,"least":1.0,"most":3.0},{"name":"p","value":4.0,"peer":true}]})");
  EXPECT_EQ(j["missing"].dump(), R"([{"map":"m","why":"why"}])");
  EXPECT_EQ(j["findings"].dump(),
            R"([{"paper":"claim","of_paper":false,"ours":"so it is.","verdict":"differs"}])");
  f.machine = "i7_4770";
  EXPECT_EQ(to_json(f)["findings"][0]["machine"], "i7_4770");
}

}  // namespace
}  // namespace espalier::app::malloc_tsx
