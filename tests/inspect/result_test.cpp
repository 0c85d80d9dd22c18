#include "espalier/inspect/result.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "espalier/inspect/model.hpp"

namespace espalier::inspect {
namespace {

using nlohmann::json;

const hw::cache_geometry& haswell() { return hw::cache_geometry_named("haswell"); }

json written(const analysis& a, const std::vector<assertion_outcome>& outcomes = {}) {
  const std::string text = to_json(a, find_faults(a), outcomes);
  EXPECT_EQ(text.find('\n'), text.size() - 1);
  return json::parse(text);
}

TEST(result, says_what_the_analysis_says) {
  const analysis a = analyze(lay_out(allocation_pattern_named("ndnd-paged"), 50'000), haswell());
  const json j = written(a, evaluate(parse_assertions("node.unused_l2<5%,descriptor.crossing<1%"), a));
  EXPECT_EQ(j["schema"], "espalier-inspect/1");
  EXPECT_EQ(j["subject"], "ndnd-paged");
  EXPECT_EQ(j["facts"][0]["name"], "model");
  EXPECT_EQ(j["geometry"]["name"], "haswell");
  EXPECT_EQ(j["geometry"]["llc"], (json{{"sets", 2048}, {"ways", 20}, {"slices", 12}}));
  EXPECT_EQ(j["geometry"]["tlb"]["l2"], 1024);
  EXPECT_EQ(j["blocks"], 100'000);
  ASSERT_EQ(j["types"].size(), 2u);
  const json& node = j["types"][0];
  EXPECT_EQ(node["name"], "node");
  EXPECT_EQ(node["blocks"], 50'000);
  EXPECT_EQ(node["searched"], true);
  EXPECT_EQ(node["crossing"], 0.0);
  EXPECT_EQ(node["size_classes"]["most"][0], (json{{"value", 64}, {"count", 50'000}}));
  const json& l2 = node["caches"]["l2"]["physical"];
  EXPECT_EQ(l2["sets"], 512);
  EXPECT_NEAR(l2["unused_share"].get<double>(), 0.5078, 0.0005);
  EXPECT_EQ(l2["heat"]["lines"].size(), 512u);
  EXPECT_EQ(l2["heat"]["unused"][0], 1);
  EXPECT_EQ(node["neighbours"][0]["type"], "descriptor");
  EXPECT_EQ(node["neighbours"][0]["in_line"], 0);
  EXPECT_GT(node["neighbours"][0]["in_pair"], 49'000);
  EXPECT_EQ(node["neighbours"][1]["type"], "node");
  EXPECT_EQ(node["pages"]["small"], 0);
  EXPECT_EQ(node["pages"]["tlb_load"], node["pages"]["huge"].get<double>() / 1024);
  EXPECT_EQ(node["pages"]["mixed_pages"], node["pages"]["pages"]);
  EXPECT_EQ(j["findings"][0]["kind"], "unused_sets");
  EXPECT_EQ(j["findings"][0]["type"], "node");
  EXPECT_EQ(j["findings"][0]["other"], "descriptor");
  EXPECT_EQ(j["findings"][0]["advice"], "segregate");
  EXPECT_EQ(j["assertions"][0]["result"], "fails");
  EXPECT_EQ(j["assertions"][0]["type"], "node");
  EXPECT_EQ(j["assertions"][1]["result"], "unavailable");
}

TEST(result, what_is_not_known_is_null) {
  const snapshot s =
      make_snapshot("test", {{"a", false, {}, {}}, {"b", false, {}, {}}}, {{0x1000, 64, 0, 0}});
  analysis_options none;
  none.types_with_cells = 0;
  const analysis a = analyze(s, haswell(), none);
  const json j = written(a, evaluate(parse_assertions("unused_l2<5%"), a));
  const json& t = j["types"][0];
  for (const char* name : {"searched_straddling", "crossing", "lines_per_visit", "children"})
    EXPECT_TRUE(t.contains(name) && t[name].is_null()) << name;
  for (const char* name : {"small", "huge", "tlb_entries", "l1_tlb_load", "tlb_load"})
    EXPECT_TRUE(t["pages"].contains(name) && t["pages"][name].is_null()) << name;
  EXPECT_TRUE(t["caches"]["llc"].contains("physical"));
  EXPECT_TRUE(t["caches"]["llc"]["physical"].is_null());
  EXPECT_TRUE(t["caches"]["llc"]["virtual"]["heat"].is_null());
  EXPECT_TRUE(j["types"][1]["pages"]["scatter"].is_null());
  EXPECT_EQ(j["unknown"]["pointers"], "pointers were not searched for");
  EXPECT_EQ(j["blind_spots"].size(), 4u);
  EXPECT_TRUE(j["assertions"][0]["figure"].is_null());
  EXPECT_TRUE(j["assertions"][0]["type"].is_null());
  EXPECT_EQ(j["findings"], json::array());
}

TEST(result, what_is_known_to_be_nothing_is_not_null) {
  snapshot s = make_snapshot("test", {{"a", false, {}, {}}}, {{0x1000, 64, 0, 0}});
  s.links_unknown.clear();
  s.frames_unknown.clear();
  const json j = written(analyze(s, haswell()));
  EXPECT_EQ(j["types"][0]["children"], json::array());
  EXPECT_TRUE(j["unknown"]["pointers"].is_null());
  EXPECT_TRUE(j["unknown"]["frames"].is_null());
}

TEST(result, children_and_false_sharing) {
  snapshot s = make_snapshot("test", {{"lock", true, {}, {}}, {"b", false, {}, {}}},
                             {{0x1000, 32, 0, 0}, {0x1020, 32, 0, 1}});
  s.links = {{0, 1}};
  s.links_unknown.clear();
  const json j = written(analyze(s, haswell()));
  EXPECT_EQ(j["types"][0]["children"][0], (json{{"type", "b"},
                                                {"parents", 1},
                                                {"in_line", 1},
                                                {"in_pair", 0},
                                                {"in_adjacent_line", 0},
                                                {"in_page", 1}}));
  EXPECT_EQ(j["false_sharing"], (json::array({{{"written", "lock"}, {"other", "b"}, {"blocks", 1}}})));
  EXPECT_EQ(j["types"][0]["mixed"], (json{{"in_line", 1}, {"in_pair", 1}, {"in_page", 1}}));
}

TEST(result, the_page_map_by_columns) {
  const snapshot s = make_snapshot("test", {{"a", false, {}, {}}, {"b", false, {}, {}}},
                                   {{0x1000, 32, 0, 0}, {0x1020, 48, 0, 1}, {0x9000, 8, 0, 1}});
  EXPECT_EQ(written(analyze(s, haswell()))["page_map"], json::parse(R"({
    "pages_per_cell": 1, "first_page": [1, 9], "pages": [1, 1], "mixed_pages": [1, 0], "bytes": [80, 8],
    "types": [2, 1], "most": [[[1, 48], [0, 32]], [[1, 8]]]})"));
}

TEST(result, the_page_map_of_nothing_is_empty) {
  const json map = written(analyze(make_snapshot("test", {}, {}), haswell()))["page_map"];
  EXPECT_EQ(map["first_page"], json::array());
  EXPECT_EQ(map["most"], json::array());
}

TEST(result, names_that_are_not_utf_8) {
  const snapshot s = make_snapshot("\xff\"\n", {{"a\xc3", false, {}, {}}}, {});
  EXPECT_NO_THROW(static_cast<void>(written(analyze(s, haswell()))));
}

}  // namespace
}  // namespace espalier::inspect
