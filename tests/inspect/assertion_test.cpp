#include "espalier/inspect/assertion.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/inspect/model.hpp"

namespace espalier::inspect {
namespace {

using testing::AllOf;
using testing::HasSubstr;

assertion one(std::string_view text) {
  const auto all = parse_assertions(text);
  EXPECT_EQ(all.size(), 1u) << text;
  return all.front();
}

TEST(assertion, parts_of_a_condition) {
  const assertion a = one("unused_l2<5%");
  EXPECT_EQ(a.text, "unused_l2<5%");
  EXPECT_EQ(a.type, std::nullopt);
  EXPECT_EQ(a.figure->name, "unused_l2");
  EXPECT_EQ(a.holds_if, relation::less);
  EXPECT_DOUBLE_EQ(a.bound, 0.05);
  EXPECT_EQ(one("pages<=7").holds_if, relation::at_most);
  EXPECT_EQ(one("pages>7").holds_if, relation::more);
  EXPECT_EQ(one("pages>=7").holds_if, relation::at_least);
  EXPECT_EQ(one("pages>=7").bound, 7);
  EXPECT_DOUBLE_EQ(one(" crossing <= 0.125 ").bound, 0.125);
  EXPECT_DOUBLE_EQ(one("crossing < 12.5 %").bound, 0.125);
  EXPECT_EQ(one("mixed_pages<=0").bound, 0);
  EXPECT_EQ(one("crossing<=1").bound, 1);
}

TEST(assertion, names_of_types) {
  EXPECT_EQ(one("node.pages<1").type, "node");
  EXPECT_EQ(one("insert (tree.cpp:12).pages<1").type, "insert (tree.cpp:12)");
  EXPECT_EQ(one("vector<int>.pages<1").type, "vector<int>");
  EXPECT_EQ(one("\"map<int, less>\".pages<1").type, "map<int, less>");
  EXPECT_EQ(one("row lock . pages<1").type, "row lock");
}

TEST(assertion, several) {
  const auto all = parse_assertions("unused_l2<5%, crossing<1%,\"a,b\".mixed_pages<=0");
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[1].text, "crossing<1%");
  EXPECT_EQ(all[2].type, "a,b");
}

std::string refusal(std::string_view text) {
  try {
    static_cast<void>(parse_assertions(text));
  } catch (const std::invalid_argument& wrong) {
    EXPECT_EQ(std::string(wrong.what()).find('\n'), std::string::npos);
    return wrong.what();
  }
  return "no exception";
}

TEST(assertion, errors_teach) {
  EXPECT_THAT(refusal("unused_l3<5%"),
              AllOf(HasSubstr("'unused_l3'"), HasSubstr("unused_llc"), HasSubstr("tlb_entries")));
  EXPECT_THAT(refusal("unused_l2"), AllOf(HasSubstr("compares nothing"), HasSubstr("such as unused_l2<5%")));
  EXPECT_THAT(refusal("unused_l2=5%"), HasSubstr("compares nothing"));
  EXPECT_THAT(refusal("unused_l2<5"), HasSubstr("write its bound as 5% or 0.05"));
  EXPECT_THAT(refusal("unused_l2<101%"), HasSubstr("is a share"));
  EXPECT_THAT(refusal("pages<5%"), HasSubstr("no share"));
  for (const char* number : {"", "x", "5x", "%", "-1", "nan", "inf", "1e999", "<5%"})
    EXPECT_THAT(refusal(std::string("crossing<") + number),
                HasSubstr(number[0] == '<' ? "'crossing<'" : "number"))
        << number;
  EXPECT_THAT(refusal(""), HasSubstr("is empty"));
  EXPECT_THAT(refusal("pages<1,,pages<2"), HasSubstr("is empty"));
  EXPECT_THAT(refusal(".pages<1"), HasSubstr("names no type"));
  EXPECT_THAT(refusal("\"\".pages<1"), HasSubstr("names no type"));
  EXPECT_THAT(refusal("\"node.pages<1"), HasSubstr("quote that does not end"));
}

analysis looked_at(std::string_view pattern, std::uint64_t rounds) {
  return analyze(lay_out(allocation_pattern_named(pattern), rounds), hw::cache_geometry_named("haswell"));
}

assertion_outcome judged(std::string_view text, const analysis& a) {
  const auto outcomes = evaluate(parse_assertions(text), a);
  EXPECT_EQ(outcomes.size(), 1u);
  return outcomes.front();
}

TEST(assertion, holds_or_fails_by_the_figure) {
  const analysis a = looked_at("nd-48", 84'000);
  EXPECT_EQ(judged("node.crossing<13%", a).text, "node.crossing<13%: holds, 12.5 %");
  EXPECT_EQ(judged("node.crossing<12.5%", a).text, "node.crossing<12.5%: fails, 12.5 %");
  EXPECT_EQ(judged("node.crossing<=12.5%", a).result, verdict::holds);
  EXPECT_EQ(judged("node.crossing>=12.5%", a).result, verdict::holds);
  EXPECT_EQ(judged("node.crossing>12.5%", a).result, verdict::fails);
  EXPECT_EQ(judged("node.pages<=1000", a).text, "node.pages<=1000: holds, 1000");
  EXPECT_EQ(judged("mixed_pages<=0", a).result, verdict::holds);
  EXPECT_EQ(judged("mixed_pages<=0", looked_at("ndnd", 100)).result, verdict::fails);
}

TEST(assertion, of_every_type_the_worst_counts) {
  const analysis a = looked_at("ycsb-64", 3000);
  // Rows, wrappers and nodes share pages; the others do not.
  const auto mixed = judged("mixed_pages<50%", a);
  EXPECT_EQ(mixed.result, verdict::fails);
  EXPECT_EQ(mixed.figure, 1.0);
  const auto least = judged("pages>=1", a);
  EXPECT_EQ(least.result, verdict::holds);
  EXPECT_THAT(least.text, HasSubstr("(value)"));
  EXPECT_EQ(judged("pages>24", a).result, verdict::fails);
}

TEST(assertion, what_is_not_known_neither_holds_nor_fails) {
  const analysis a = looked_at("ndnd", 100);
  // Too few lines for the L2; descriptors say nothing of searches.
  EXPECT_EQ(judged("unused_l2<5%", a).text, "unused_l2<5%: unavailable");
  EXPECT_EQ(judged("descriptor.crossing<5%", a).result, verdict::unavailable);
  EXPECT_EQ(judged("crossing<5%", a).text, "crossing<5%: holds, 0 % (node)");
  EXPECT_EQ(judged("pages<5", analyze(snapshot{}, a.geometry)).result, verdict::unavailable);
}

TEST(assertion, an_unknown_type_is_told_those_there_are) {
  try {
    static_cast<void>(evaluate(parse_assertions("nodes.pages<1"), looked_at("ndnd", 1)));
    FAIL() << "no exception";
  } catch (const std::invalid_argument& wrong) {
    EXPECT_THAT(wrong.what(), HasSubstr("no type is called 'nodes'; there are node, descriptor"));
  }
}

TEST(assertion, every_metric_gives_a_figure_of_a_large_layout) {
  const analysis a = looked_at("ndnd-paged", 50'000);
  std::set<std::string_view> names;
  for (const metric& m : metrics()) {
    EXPECT_TRUE(names.insert(m.name).second) << m.name;
    EXPECT_EQ(metric_named(m.name), &m);
    const auto figure = m.of(a, 0);
    ASSERT_TRUE(figure) << m.name;
    EXPECT_TRUE(m.unit != metric_unit::share || *figure <= 1) << m.name;
  }
  EXPECT_NEAR(*metric_named("unused_l2")->of(a, 0), 0.5078, 0.0005);
  // All but those beside a header, one of 63.
  EXPECT_NEAR(*metric_named("mixed_pairs")->of(a, 0), 62.0 / 63, 1e-4);
  EXPECT_EQ(*metric_named("mixed_lines")->of(a, 0), 0);
  EXPECT_EQ(*metric_named("waste")->of(a, 0), 0);
  EXPECT_EQ(*metric_named("runs")->of(a, 0), 1);
  EXPECT_EQ(*metric_named("overloaded_l2")->of(a, 0), 0.4921875);
  const analysis locks = looked_at("locks-48", 85 * 10);
  EXPECT_EQ(*metric_named("false_sharing")->of(locks, 0), 1);
  EXPECT_EQ(*metric_named("straddling")->of(locks, 0), 42.0 / 85);
}

}  // namespace
}  // namespace espalier::inspect
