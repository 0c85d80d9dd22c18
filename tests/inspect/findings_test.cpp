// Layouts of allocation patterns, modelled and played; what is found in a layout, conditions on it, and the file of results.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/hw/cache_geometry.hpp"
#include "espalier/inspect/analysis.hpp"
#include "espalier/inspect/assertion.hpp"
#include "espalier/inspect/findings.hpp"
#include "espalier/inspect/model.hpp"
#include "espalier/inspect/result.hpp"
#include "support/refusal.hpp"
#include "support/sanitizers.hpp"

namespace espalier::inspect {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

const hw::cache_geometry& haswell() { return hw::cache_geometry_named("haswell"); }
const hw::cache_geometry& opteron() { return hw::cache_geometry_named("abu_dhabi"); }

constexpr std::uint64_t base = 0x10000000;

/// `count` blocks of one type at a stride; in huge pages whose frames are not known.
snapshot strided(const block_type& type, std::uint64_t count, std::uint64_t stride, std::uint64_t bytes) {
  std::vector<live_block> blocks;
  for (std::uint64_t i = 0; i < count; ++i) blocks.push_back({base + i * stride, bytes, 0, 0});
  snapshot s = make_snapshot("test", {type}, std::move(blocks));
  for (page& p : s.pages) p.set_huge(true);
  s.huge_unknown.clear();
  return s;
}

std::vector<finding> of(const snapshot& s, const hw::cache_geometry& geometry = haswell()) {
  return find_faults(analyze(s, geometry));
}

std::vector<finding> of(std::string_view pattern, std::uint64_t rounds,
                        const hw::cache_geometry& on = haswell()) {
  return of(lay_out(allocation_pattern_named(pattern), rounds), on);
}

const finding* find(const std::vector<finding>& all, finding_kind kind, type_index type = 0) {
  const auto found =
      std::ranges::find_if(all, [&](const finding& f) { return f.kind == kind && f.type == type; });
  return found == all.end() ? nullptr : &*found;
}

finding found(const std::vector<finding>& all, finding_kind kind, type_index type = 0) {
  const finding* const one = find(all, kind, type);
  EXPECT_NE(one, nullptr) << to_string(kind);
  return one == nullptr ? finding{} : *one;
}

const block_type plain{"thing", false, {}, {}};

TEST(findings, none_where_nothing_is_wrong) {
  const analysis a = analyze(strided(plain, 100'000, 64, 64), haswell());
  EXPECT_THAT(find_faults(a), IsEmpty());
  EXPECT_EQ(summary_of(a, {}), "Nothing to change in 100000 blocks of 1 type in 1563 pages.");
  EXPECT_THAT(of("ndnd-scattered", 0), IsEmpty());
  const analysis empty = analyze(snapshot{}, haswell());
  EXPECT_EQ(summary_of(empty, find_faults(empty)), "There are no blocks to look at.");
}

TEST(findings, unused_sets_of_types_that_alternate) {
  const finding f = found(of("ndnd-paged", 200'000), finding_kind::unused_sets);
  EXPECT_EQ(f.text,
            "node leaves 50.8 % of the L2 sets and 50.8 % of the LLC sets unused: it alternates with "
            "descriptor of the "
            "same 64-byte class. Segregate them, or bring node into another size class (at most 48 bytes).");
  EXPECT_EQ(f.advice, remedy::segregate);
  EXPECT_EQ(f.other, 1u);
  EXPECT_NEAR(f.figure, 0.5078, 0.0005);
  EXPECT_EQ(find(of("nd-48", 200'000), finding_kind::unused_sets), nullptr);
  EXPECT_EQ(find(of("ndnd-scattered", 200'000), finding_kind::unused_sets), nullptr);
}

TEST(findings, unused_sets_name_everyone_in_turn) {
  const auto all = of("rwn", 200'000);
  ASSERT_NE(find(all, finding_kind::unused_sets, 2), nullptr);
  EXPECT_THAT(find(all, finding_kind::unused_sets, 2)->text,
              AllOf(HasSubstr("66.7 % of the LLC sets unused"), HasSubstr("row and wrapper")));
  EXPECT_THAT(find(all, finding_kind::unused_sets, 2)->text, testing::Not(HasSubstr("L2")));
}

TEST(findings, unused_sets_by_a_stride_of_ones_own) {
  const auto all = of(strided(plain, 10'000, 256, 200));
  const finding* f = find(all, finding_kind::unused_sets);
  // 200 bytes are four lines of 256, and no set is left out; 64 are not.
  EXPECT_EQ(f, nullptr);
  const auto narrow = of(strided(plain, 10'000, 256, 64));
  f = find(narrow, finding_kind::unused_sets);
  ASSERT_NE(f, nullptr);
  EXPECT_EQ(f->advice, remedy::pad);
  EXPECT_THAT(
      f->text,
      AllOf(HasSubstr("75.0 % of the L1 sets and 75.0 % of the L2 sets (by virtual addresses) unused"),
            HasSubstr("256 bytes after the one before"), HasSubstr("such as 320 bytes")));
  EXPECT_EQ(find(of(strided(plain, 10'000, 320, 64)), finding_kind::unused_sets), nullptr);
}

TEST(findings, too_few_blocks_leave_sets_unused_and_are_not_blamed) {
  // 100 lines cannot fill 512 sets; those of the L1 they do fill.
  EXPECT_EQ(find(of(strided(plain, 126, 128, 64)), finding_kind::unused_sets), nullptr);
  EXPECT_NE(find(of(strided(plain, 128, 128, 64)), finding_kind::unused_sets), nullptr);
}

TEST(findings, sets_that_chance_leaves_unused_are_not_blamed) {
  // Some 13 % of the L2's 512 sets, where 1100 lines lie at random.
  std::mt19937_64 random(1);
  std::set<std::uint64_t> lines;
  while (lines.size() < 1100) lines.insert(random() % (1U << 24));
  std::vector<live_block> blocks;
  for (const std::uint64_t line : lines) blocks.push_back({line * 64, 64, 0, 0});
  const analysis a = analyze(make_snapshot("test", {plain}, blocks), haswell());
  EXPECT_GT(a.by_type[0].cache(cache_level::l2).best().unused_share(), 0.10);
  EXPECT_EQ(find(find_faults(a), finding_kind::unused_sets), nullptr);
}

TEST(findings, overloaded_sets) {
  // The ring of the placement study in small: 8 sets of 64 have 16 lines each, and the rest has one or none.
  std::vector<live_block> blocks;
  for (std::uint64_t i = 0; i < 128; ++i) blocks.push_back({base + i * 512, 8, 0, 0});
  for (std::uint64_t i = 0; i < 56; ++i) blocks.push_back({base + 0x100000 + 64 * (i + i / 7 + 1), 8, 0, 0});
  const finding f = found(of(make_snapshot("test", {plain}, blocks)), finding_kind::overloaded_sets);
  EXPECT_DOUBLE_EQ(f.figure, 8.0 / 64);
  EXPECT_EQ(f.advice, remedy::pad);
  EXPECT_THAT(f.text,
              AllOf(HasSubstr("12.5 % of the L1 sets"), HasSubstr("up to 16"), HasSubstr("576 bytes")));
  EXPECT_EQ(find(of(strided(plain, 128, 576, 8)), finding_kind::overloaded_sets), nullptr);
  // Where sets are unused, that is what is said.
  const auto unused = of(strided(plain, 1280, 512, 8));
  EXPECT_NE(find(unused, finding_kind::unused_sets), nullptr);
  EXPECT_EQ(find(unused, finding_kind::overloaded_sets), nullptr);
}

const block_type node{"node", false, {{0, 8}}, {{8, 8}, {16, 8}}};

TEST(findings, crossing_is_cured_by_padding) {
  const finding f = found(of(strided(node, 10'000, 48, 48)), finding_kind::crossing);
  EXPECT_EQ(f.figure, 0.125);
  EXPECT_EQ(f.advice, remedy::pad);
  EXPECT_THAT(f.text, AllOf(HasSubstr("12.5 % of the searches"), HasSubstr("of 10000 blocks 2500 straddle"),
                            HasSubstr("Pad it to 64 bytes")));
  EXPECT_EQ(find(of(strided(node, 10'000, 64, 48)), finding_kind::crossing), nullptr);
  EXPECT_EQ(find(of(strided(node, 10'000, 32, 32)), finding_kind::crossing), nullptr);
  // Who says nothing of searches is not accused.
  EXPECT_EQ(find(of(strided(plain, 10'000, 48, 48)), finding_kind::crossing), nullptr);
}

TEST(findings, crossing_by_fields_far_apart_is_cured_by_their_order) {
  const block_type far{"far", false, {{0, 8}, {96, 8}}, {}};
  const finding f = found(of(strided(far, 1000, 128, 128)), finding_kind::crossing);
  EXPECT_EQ(f.advice, remedy::reorder_fields);
  EXPECT_THAT(f.text, HasSubstr("100.0 % of the searches"));
  const block_type close{"close", false, {{0, 8}, {48, 8}}, {}};
  EXPECT_EQ(find(of(strided(close, 1000, 128, 128)), finding_kind::crossing), nullptr);
}

TEST(findings, a_node_of_several_lines_is_not_blamed_for_its_size) {
  // A header, and one of three segments.
  const block_type large{"leaf", false, {{0, 8}}, {{64, 64}, {128, 64}, {192, 64}}};
  EXPECT_EQ(find(of(strided(large, 1000, 256, 256)), finding_kind::crossing), nullptr);
  const finding f = found(of(strided(large, 1000, 272, 256)), finding_kind::crossing);
  EXPECT_EQ(f.figure, 0.75);
  EXPECT_EQ(f.advice, remedy::pad);
  EXPECT_THAT(f.text, AllOf(HasSubstr("75.0 % of the blocks of leaf"), HasSubstr("Align it to 64 bytes")));
}

TEST(findings, crossing_is_left_alone_where_padding_would_outgrow_the_cache) {
  // 8 MiB: 150,000 nodes of 48 bytes fit, of 64 bytes not.
  const auto all = of(strided(node, 150'000, 48, 48), hw::cache_geometry_named("i7_4770"));
  ASSERT_NE(find(all, finding_kind::crossing), nullptr);
  EXPECT_EQ(find(all, finding_kind::crossing)->advice, remedy::leave_alone);
  const auto larger = of(strided(node, 200'000, 48, 48), hw::cache_geometry_named("i7_4770"));
  EXPECT_EQ(find(larger, finding_kind::crossing)->advice, remedy::pad);
}

/// Pairs of lines: one of the first type, one of the second; every `nth` pair has the second.
snapshot in_turn(const block_type& first, const block_type& second, std::uint64_t nth,
                 std::uint64_t bytes = 64) {
  std::vector<live_block> blocks;
  for (std::uint64_t i = 0; i < 60; ++i) {
    blocks.push_back({base + i * 128, bytes, 0, 0});
    if (i % nth == 0) blocks.push_back({base + i * 128 + 64, 8, 0, 1});
  }
  return make_snapshot("test", {first, second}, std::move(blocks));
}

TEST(findings, foreign_neighbours) {
  const finding f = found(of(in_turn(node, plain, 2)), finding_kind::foreign_neighbours);
  EXPECT_EQ(f.figure, 0.5);
  EXPECT_EQ(f.other, 1u);
  EXPECT_EQ(f.advice, remedy::segregate);
  EXPECT_THAT(f.text, HasSubstr("50.0 % of the blocks of node share a pair of lines with thing"));
  EXPECT_EQ(find(of(in_turn(node, plain, 10)), finding_kind::foreign_neighbours), nullptr);
  // Without a prefetcher of pairs only the line counts.
  EXPECT_EQ(find(of(in_turn(node, plain, 2), opteron()), finding_kind::foreign_neighbours), nullptr);
  // Searched company is welcome, and what is not searched itself may have any.
  EXPECT_EQ(find(of(in_turn(node, node, 1)), finding_kind::foreign_neighbours), nullptr);
  EXPECT_EQ(find(of(in_turn(plain, plain, 1)), finding_kind::foreign_neighbours), nullptr);
  // Where unused sets have named the same neighbour it is not said twice.
  EXPECT_EQ(find(of("ndnd", 20'000), finding_kind::foreign_neighbours), nullptr);
}

TEST(findings, false_sharing) {
  const block_type lock{"lock", true, {}, {}};
  const auto packed = of("locks-48", 1000);
  const finding* f = find(packed, finding_kind::false_sharing);
  ASSERT_NE(f, nullptr);
  EXPECT_EQ(f->advice, remedy::pad);
  EXPECT_THAT(f->text, AllOf(HasSubstr("row lock, which is written"), HasSubstr("with others of it"),
                             HasSubstr("Pad it to 128 bytes")));
  EXPECT_EQ(find(of(strided(lock, 1000, 128, 48)), finding_kind::false_sharing), nullptr);
  EXPECT_NE(find(of(strided(lock, 1000, 64, 48)), finding_kind::false_sharing), nullptr);
  EXPECT_EQ(find(of(strided(lock, 1000, 64, 48), opteron()), finding_kind::false_sharing), nullptr);
  EXPECT_EQ(find(of(strided(plain, 1000, 48, 48)), finding_kind::false_sharing), nullptr);
  const auto beside = of(in_turn(lock, plain, 1));
  ASSERT_NE(find(beside, finding_kind::false_sharing), nullptr);
  EXPECT_THAT(find(beside, finding_kind::false_sharing)->text, HasSubstr("or segregate the two"));
  EXPECT_EQ(find(beside, finding_kind::false_sharing, 1), nullptr);
}

TEST(findings, scattered_pages) {
  const auto all = of("ycsb-48", 170'000);
  const finding* f = find(all, finding_kind::scattered_pages, 5);
  ASSERT_NE(f, nullptr);
  EXPECT_NEAR(f->figure, 11, 1);
  EXPECT_EQ(f->advice, remedy::segregate);
  EXPECT_THAT(f->text, HasSubstr("huge pages where 4 would do"));
  EXPECT_EQ(find(of("ycsb-48-segregated", 170'000), finding_kind::scattered_pages, 5), nullptr);
  // An arena grows from ordinary pages to huge ones; it is none the worse for the former.
  snapshot grown = strided(plain, 4 * 512, page_bytes, page_bytes);
  for (std::size_t i = 0; i < grown.pages.size(); ++i) grown.pages[i].set_huge(i >= 512);
  EXPECT_EQ(find(of(grown), finding_kind::scattered_pages), nullptr);
  snapshot thin = strided(plain, 4 * 512, page_bytes, 64);
  for (std::size_t i = 0; i < thin.pages.size(); ++i) thin.pages[i].set_huge(i >= 512);
  const auto of_thin = of(thin);
  f = find(of_thin, finding_kind::scattered_pages);
  ASSERT_NE(f, nullptr);
  EXPECT_THAT(f->text, HasSubstr("takes 515 pages, huge and ordinary, where 9 would do"));
  // As scattered, but few enough for the first TLB.
  EXPECT_EQ(find(of("ycsb-48", 30'000), finding_kind::scattered_pages, 5), nullptr);
}

TEST(findings, tlb_reach) {
  // 1024 entries of the second TLB.
  snapshot s = strided(plain, 1025, page_bytes, 4096);
  EXPECT_EQ(find(of(s), finding_kind::tlb_reach), nullptr);
  for (page& p : s.pages) p.set_huge(false);
  const finding f = found(of(s), finding_kind::tlb_reach);
  EXPECT_EQ(f.advice, remedy::use_huge_pages);
  EXPECT_THAT(f.text, AllOf(HasSubstr("1025 ordinary pages"), HasSubstr("1024 entries")));
  s.pages.front().set_huge(true);
  EXPECT_EQ(find(of(s), finding_kind::tlb_reach), nullptr);
  // Unknown is not small.
  for (page& p : s.pages) p.state = 0;
  EXPECT_EQ(find(of(s), finding_kind::tlb_reach), nullptr);
}

TEST(findings, the_larger_type_comes_first) {
  const auto all = of("rwn", 100'000);
  ASSERT_GE(all.size(), 3u);
  EXPECT_EQ(all[0].kind, finding_kind::unused_sets);
  const block_type lock{"lock", true, {}, {}};
  std::vector<live_block> blocks;
  for (std::uint64_t i = 0; i < 100; ++i) blocks.push_back({base + i * 8, 8, 0, 0});
  for (std::uint64_t i = 0; i < 100; ++i) blocks.push_back({base + 0x10000 + i * 16, 16, 0, 1});
  const auto two = of(make_snapshot("test", {lock, lock}, blocks));
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[0].type, 1u);
  EXPECT_EQ(two[1].type, 0u);
}

TEST(findings, thresholds_are_the_callers) {
  finding_thresholds lax;
  lax.unused_sets = 0.6;
  const analysis a = analyze(lay_out(allocation_pattern_named("ndnd"), 100'000), haswell());
  EXPECT_NE(find(find_faults(a), finding_kind::unused_sets), nullptr);
  EXPECT_EQ(find(find_faults(a, lax), finding_kind::unused_sets), nullptr);
}

TEST(findings, what_could_not_be_judged_is_said) {
  snapshot s = strided(plain, 10, 64, 64);
  s.frames_unknown = "no permission";
  const auto spots = blind_spots(analyze(s, haswell()));
  ASSERT_EQ(spots.size(), 3u);
  EXPECT_THAT(spots[0], HasSubstr("virtual addresses: no permission."));
  EXPECT_THAT(spots[1], HasSubstr("pointers were not searched for"));
  EXPECT_THAT(spots[2], HasSubstr("no type says what searches read"));
  s.huge_unknown = "no file";
  EXPECT_EQ(blind_spots(analyze(s, haswell())).size(), 4u);
  snapshot known = lay_out(allocation_pattern_named("ndnd"), 10);
  known.links_unknown.clear();
  EXPECT_THAT(blind_spots(analyze(known, haswell())), IsEmpty());
}

TEST(findings, every_kind_and_remedy_has_a_name) {
  EXPECT_EQ(to_string(finding_kind::unused_sets), "unused_sets");
  EXPECT_EQ(to_string(finding_kind::tlb_reach), "tlb_reach");
  EXPECT_EQ(to_string(remedy::leave_alone), "leave_alone");
}

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
  const std::string why = test::refusal([&] { return parse_assertions(text); });
  EXPECT_EQ(why.find('\n'), std::string::npos);
  return why;
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
  EXPECT_THAT(test::refusal([] { return evaluate(parse_assertions("nodes.pages<1"), looked_at("ndnd", 1)); }),
              HasSubstr("no type is called 'nodes'; there are node, descriptor"));
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

using nlohmann::json;

json written(const analysis& a, const std::vector<assertion_outcome>& outcomes = {}) {
  const std::string text = to_json(a, find_faults(a), outcomes);
  EXPECT_EQ(text.find('\n'), text.size() - 1);
  return json::parse(text);
}

/// What a file has at these JSON pointers, as text.
void expect_at(const json& file, const std::vector<std::pair<std::string, std::string>>& expected) {
  for (const auto& [where, text] : expected)
    EXPECT_EQ(file.at(json::json_pointer(where)).dump(), text) << where;
}

/// That it has members, whose value is null.
void expect_null(const json& file, const std::vector<std::string>& members) {
  for (const std::string& where : members) expect_at(file, {{where, "null"}});
}

TEST(result, says_what_the_analysis_says) {
  const analysis a = analyze(lay_out(allocation_pattern_named("ndnd-paged"), 50'000), haswell());
  const json j = written(a, evaluate(parse_assertions("node.unused_l2<5%,descriptor.crossing<1%"), a));
  expect_at(j, {{"/schema", R"("espalier-inspect/1")"},
                {"/subject", R"("ndnd-paged")"},
                {"/facts/0/name", R"("model")"},
                {"/geometry/name", R"("haswell")"},
                {"/geometry/llc", R"({"sets":2048,"slices":12,"ways":20})"},
                {"/geometry/tlb/l2", "1024"},
                {"/blocks", "100000"},
                {"/findings/0/kind", R"("unused_sets")"},
                {"/findings/0/type", R"("node")"},
                {"/findings/0/other", R"("descriptor")"},
                {"/findings/0/advice", R"("segregate")"},
                {"/assertions/0/result", R"("fails")"},
                {"/assertions/0/type", R"("node")"},
                {"/assertions/1/result", R"("unavailable")"}});
  ASSERT_EQ(j["types"].size(), 2u);
  const json& of_node = j["types"][0];
  expect_at(of_node, {{"/name", R"("node")"},
                      {"/blocks", "50000"},
                      {"/searched", "true"},
                      {"/crossing", "0.0"},
                      {"/size_classes/most/0", R"({"count":50000,"value":64})"},
                      {"/neighbours/0/type", R"("descriptor")"},
                      {"/neighbours/0/in_line", "0"},
                      {"/neighbours/1/type", R"("node")"},
                      {"/pages/small", "0"},
                      {"/pages/mixed_pages", of_node["pages"]["pages"].dump()}});
  const json& l2 = of_node["caches"]["l2"]["physical"];
  expect_at(l2, {{"/sets", "512"}, {"/heat/unused/0", "1"}});
  EXPECT_NEAR(l2["unused_share"].get<double>(), 0.5078, 0.0005);
  EXPECT_EQ(l2["heat"]["lines"].size(), 512u);
  EXPECT_GT(of_node["neighbours"][0]["in_pair"].get<double>(), 49'000);
  EXPECT_EQ(of_node["pages"]["tlb_load"].get<double>(), of_node["pages"]["huge"].get<double>() / 1024);
}

TEST(result, what_is_not_known_is_null) {
  const snapshot s =
      make_snapshot("test", {{"a", false, {}, {}}, {"b", false, {}, {}}}, {{0x1000, 64, 0, 0}});
  analysis_options none;
  none.types_with_cells = 0;
  const analysis a = analyze(s, haswell(), none);
  const json j = written(a, evaluate(parse_assertions("unused_l2<5%"), a));
  expect_null(j["types"][0], {"/searched_straddling", "/crossing", "/lines_per_visit", "/children",
                              "/pages/small", "/pages/huge", "/pages/tlb_entries", "/pages/l1_tlb_load",
                              "/pages/tlb_load", "/caches/llc/physical", "/caches/llc/virtual/heat"});
  expect_null(j, {"/types/1/pages/scatter", "/assertions/0/figure", "/assertions/0/type"});
  expect_at(j, {{"/unknown/pointers", R"("pointers were not searched for")"}, {"/findings", "[]"}});
  EXPECT_EQ(j["blind_spots"].size(), 4u);
}

TEST(result, what_is_known_to_be_nothing_is_not_null) {
  snapshot s = make_snapshot("test", {{"a", false, {}, {}}}, {{0x1000, 64, 0, 0}});
  s.links_unknown.clear();
  s.frames_unknown.clear();
  const json j = written(analyze(s, haswell()));
  expect_at(j, {{"/types/0/children", "[]"}});
  expect_null(j, {"/unknown/pointers", "/unknown/frames"});
}

TEST(result, children_and_false_sharing) {
  snapshot s = make_snapshot("test", {{"lock", true, {}, {}}, {"b", false, {}, {}}},
                             {{0x1000, 32, 0, 0}, {0x1020, 32, 0, 1}});
  s.links = {{0, 1}};
  s.links_unknown.clear();
  expect_at(written(analyze(s, haswell())),
            {{"/types/0/children/0",
              R"({"in_adjacent_line":0,"in_line":1,"in_page":1,"in_pair":0,"parents":1,"type":"b"})"},
             {"/false_sharing", R"([{"blocks":1,"other":"b","written":"lock"}])"},
             {"/types/0/mixed", R"({"in_line":1,"in_page":1,"in_pair":1})"}});
}

TEST(result, the_page_map_by_columns) {
  const snapshot s = make_snapshot("test", {{"a", false, {}, {}}, {"b", false, {}, {}}},
                                   {{0x1000, 32, 0, 0}, {0x1020, 48, 0, 1}, {0x9000, 8, 0, 1}});
  expect_at(written(analyze(s, haswell()))["page_map"], {{"/pages_per_cell", "1"},
                                                         {"/first_page", "[1,9]"},
                                                         {"/pages", "[1,1]"},
                                                         {"/mixed_pages", "[1,0]"},
                                                         {"/bytes", "[80,8]"},
                                                         {"/types", "[2,1]"},
                                                         {"/most", "[[[1,48],[0,32]],[[1,8]]]"}});
}

TEST(result, the_page_map_of_nothing_is_empty) {
  expect_at(written(analyze(make_snapshot("test", {}, {}), haswell())),
            {{"/page_map/first_page", "[]"}, {"/page_map/most", "[]"}});
}

TEST(result, names_that_are_not_utf_8) {
  const snapshot s = make_snapshot("\xff\"\n", {{"a\xc3", false, {}, {}}}, {});
  EXPECT_NO_THROW(static_cast<void>(written(analyze(s, haswell()))));
}

const type_analysis& of(const analysis& a, std::string_view name) {
  const auto found = std::ranges::find(a.types, name, &block_type::name);
  return a.by_type[static_cast<std::size_t>(found - a.types.begin())];
}

analysis on_haswell(std::string_view pattern, std::uint64_t rounds) {
  return analyze(lay_out(allocation_pattern_named(pattern), rounds), hw::cache_geometry_named("haswell"));
}

/// Percentages of unused L1, L2 and LLC sets, to 0.05 points.
void expect_unused(const type_analysis& t, double l1, double l2, double llc) {
  EXPECT_NEAR(100 * t.cache(cache_level::l1).best().unused_share(), l1, 0.05);
  EXPECT_NEAR(100 * t.cache(cache_level::l2).best().unused_share(), l2, 0.05);
  EXPECT_NEAR(100 * t.cache(cache_level::llc).best().unused_share(), llc, 0.05);
  EXPECT_TRUE(t.cache(cache_level::l2).best().physical);
  EXPECT_TRUE(t.cache(cache_level::llc).best().physical);
}

// Enough lines for each of the last level's 24,576 sets: chance leaves less than 0.01 points.
constexpr std::uint64_t rounds = 300'000;

TEST(model, nodes_and_descriptors_in_turn_leave_half_of_the_sets) {
  const analysis a = on_haswell("ndnd", rounds);
  expect_unused(of(a, "node"), 50, 50, 50);
  expect_unused(of(a, "descriptor"), 50, 50, 50);
  EXPECT_EQ(of(a, "node").mixed.in_pair, rounds);
  EXPECT_EQ(of(a, "node").mixed.in_line, 0u);
  EXPECT_EQ(of(a, "node").strides.most.front().value, 128u);
  EXPECT_EQ(of(a, "node").strides.first_share(), 1);
}

// Table 4 of the study; and what frames scattered over memory, and a page's header, make of it.
TEST(model, sets_that_nodes_leave_unused) {
  struct row {
    const char* pattern;
    double l1, l2, llc;
  };
  constexpr row rows[] = {{"ndnd-paged", 1.5625, 50.78, 50.78},
                          {"ndnd-allocs", 1.56, 1.56, 1.56},
                          {"nd-48", 1.56, 1.56, 1.56},
                          {"ndnd-scattered", 1.56, 1.56, 1.56},
                          {"rwn-paged", 67.19, 67.19, 67.19},
                          // The inferred page cannot tell it from NDND: what its header says of it.
                          {"rwnn-paged", 1.5625, 50.78, 50.78}};
  for (const row& r : rows) {
    SCOPED_TRACE(r.pattern);
    const analysis a = on_haswell(r.pattern, rounds);
    expect_unused(of(a, "node"), r.l1, r.l2, r.llc);
    EXPECT_EQ(of(a, "node").mixed.in_page == 0, r.pattern == std::string_view("nd-48"));
  }
}

TEST(model, three_in_turn_leave_two_thirds_of_the_last_level) {
  const analysis a = on_haswell("rwn", rounds);
  for (const char* type : {"row", "wrapper", "node"}) expect_unused(of(a, type), 0, 0, 66.67);
  EXPECT_EQ(of(a, "node").strides.most.front().value, 192u);
}

TEST(model, a_second_node_breaks_three_in_turn) {
  const analysis a = on_haswell("rwnn", rounds);
  EXPECT_LT(of(a, "node").cache(cache_level::llc).best().unused_share(), 0.51);
}

TEST(model, of_48_byte_nodes_one_in_four_straddles) {
  const analysis a = on_haswell("nd-48", 84'000);  // whole pages
  // In its searched bytes, that is: those at offset 48 of a line. Those at 32 cross with what is not read.
  EXPECT_EQ(of(a, "node").searched_straddling, 84'000u / 4);
  EXPECT_EQ(of(a, "node").straddling, 84'000u / 2);
  // One visit in two reads the edge that lies in the other line.
  EXPECT_DOUBLE_EQ(of(a, "node").crossing.value(), 1.0 / 8);
  EXPECT_DOUBLE_EQ(of(a, "node").lines_per_visit.value(), 9.0 / 8);
  EXPECT_EQ(of(on_haswell("ndnd", 1000), "node").straddling, 0u);
  EXPECT_EQ(of(on_haswell("ndnd", 1000), "node").searched_straddling, 0u);
  EXPECT_EQ(of(on_haswell("ndnd", 1000), "node").crossing, 0.0);
}

TEST(model, row_locks_of_48_bytes_share_lines) {
  const std::uint64_t locks = 85 * 100;  // whole pages
  const analysis packed = on_haswell("locks-48", locks);
  ASSERT_EQ(packed.shared_falsely.size(), 1u);
  EXPECT_EQ(packed.types[packed.shared_falsely[0].other].name, "row lock");
  EXPECT_EQ(packed.shared_falsely[0].blocks, locks);
  const auto own_lines = [](const analysis& a) {
    const auto& all = of(a, "row lock").neighbours;
    const auto own =
        std::ranges::find_if(all, [&](const neighbour& n) { return a.types[n.other].name == "row lock"; });
    return own == all.end() ? 0 : own->blocks.in_line;
  };
  // With nodes between, no two locks share a line but across a page's end.
  // All but the last of each page, which has the last line for itself.
  EXPECT_EQ(own_lines(packed), locks - locks / 85);
  EXPECT_EQ(own_lines(on_haswell("locks-48-nodes", locks)), 0u);
}

TEST(model, pages_scattered_and_segregated_figures_6_and_7) {
  // 48-byte nodes hold one page in eleven of those handed out: 48 of 528 bytes a row.
  const analysis small = on_haswell("ycsb-48", rounds / 4);
  const page_use& scattered = of(small, "node").pages;
  EXPECT_NEAR(double(scattered.pages) / double(small.pages.pages), 48.0 / 528, 0.002);
  EXPECT_EQ(scattered.longest_run, 1u);
  EXPECT_GE(scattered.run_distances.most.front().value, 10u);
  EXPECT_LE(scattered.run_distances.most.front().value, 12u);
  EXPECT_EQ(scattered.mixed_pages, 0u);
  const analysis apart = on_haswell("ycsb-48-segregated", rounds / 4);
  EXPECT_EQ(of(apart, "node").pages.runs, 1u);
  EXPECT_EQ(of(apart, "node").pages.pages, scattered.pages);
  // Of 2 MiB pages it then takes an eleventh, but for what the ends of runs cost.
  EXPECT_LE(*of(apart, "node").pages.huge * 9, *scattered.huge);

  // 64-byte nodes share a class with rows and wrappers: single pages with gaps of a few, and a third of each.
  const page_use mixed = of(on_haswell("ycsb-64", rounds / 4), "node").pages;
  EXPECT_GT(mixed.runs, mixed.pages / 2);
  EXPECT_EQ(mixed.mixed_pages, mixed.pages);
  EXPECT_NEAR(mixed.scatter().value(), 3, 0.01);
  const page_use own = of(on_haswell("ycsb-64-segregated", rounds / 4), "node").pages;
  EXPECT_EQ(own.runs, 1u);
  EXPECT_EQ(own.mixed_pages, 0u);
  EXPECT_NEAR(own.scatter().value(), 1, 0.001);
}

TEST(model, is_the_same_for_the_same_seed) {
  const auto& pattern = allocation_pattern_named("ndnd-allocs");
  EXPECT_EQ(lay_out(pattern, 1000), lay_out(pattern, 1000));
  EXPECT_NE(lay_out(pattern, 1000), lay_out(pattern, 1000, 2));
}

TEST(model, patterns_have_names_of_their_own_and_are_valid) {
  std::set<std::string> names;
  for (const allocation_pattern& p : allocation_patterns()) {
    EXPECT_TRUE(names.insert(p.name).second) << p.name;
    EXPECT_FALSE(p.description.empty());
    const snapshot s = lay_out(p, 200);
    EXPECT_NO_THROW(require_valid(s)) << p.name;
    EXPECT_EQ(s.blocks.size(), 200 * p.order.size());
    EXPECT_EQ(s.frames_unknown + s.huge_unknown, "");
  }
}

using test::refusal;

TEST(model, refuses_what_it_cannot_lay_out) {
  EXPECT_THAT(refusal([] { return allocation_pattern_named("nnn"); }), HasSubstr("ndnd-paged"));
  allocation_pattern p = allocation_pattern_named("ndnd-paged");
  p.order = "NX";
  EXPECT_THAT(refusal([&] { return lay_out(p, 1); }), HasSubstr("'X'"));
  p.order = "N";
  p.objects[0].bytes = 4033;
  EXPECT_THAT(refusal([&] { return lay_out(p, 1); }), HasSubstr("does not fit a page"));
  p.objects[0].bytes = 4032;
  EXPECT_EQ(lay_out(p, 3).pages.size(), 3u);
}

constexpr std::uint64_t played_rounds = 20'000;

analysis played(const char* pattern, const char* placement) {
  any_placement from(placement);
  const played_pattern all(allocation_pattern_named(pattern), played_rounds, from);
  return analyze(all.layout(), hw::cache_geometry_named("haswell"));
}

TEST(played_pattern, has_the_blocks_of_the_pattern) {
  any_placement from("segregated");
  {
    const played_pattern all(allocation_pattern_named("ycsb-48"), 10, from);
    const snapshot s = all.layout();
    EXPECT_EQ(s.blocks.size(), 60U);
    EXPECT_EQ(from.usage().blocks, 60U);
    std::multiset<std::uint64_t> sizes;
    for (const live_block& b : s.blocks) sizes.insert(b.bytes);
    for (const std::uint64_t bytes : {48U, 64U, 128U, 192U, 32U})
      EXPECT_EQ(sizes.count(bytes), bytes == 64 ? 20U : 10U) << bytes;
  }
  EXPECT_EQ(from.usage().blocks, 0U);
}

TEST(played_pattern, takes_further_blocks_between) {
  any_placement from("segregated");
  {
    const played_pattern all(allocation_pattern_named("ndnd-allocs"), 1000, from);
    EXPECT_EQ(all.layout().blocks.size(), 2000U) << "which belong to no type";
    EXPECT_GT(from.usage().blocks, 2300U);
  }
  EXPECT_EQ(from.usage().blocks, 0U);
}

// Section 4.3.3. A heap that lays blocks end to end has a few nodes in each page, one of size classes has pages of
// nodes far apart.
TEST(played_pattern, segregated_nodes_lie_in_few_pages_one_behind_the_other) {
  const page_use apart = of(played("ycsb-48", "segregated"), "node").pages;
  EXPECT_EQ(apart.mixed_pages, 0U);
  EXPECT_LE(apart.pages, apart.fewest_pages + apart.runs);
  if (test::address_sanitizer || test::thread_sanitizer)
    GTEST_SKIP() << "a sanitizer's malloc lays blocks as no program has them";
  const page_use shared = of(played("ycsb-48", "shared_heap"), "node").pages;
  EXPECT_TRUE(shared.pages >= 5 * apart.pages || shared.runs >= 5 * apart.runs)
      << shared.pages << " pages in " << shared.runs << " runs against " << apart.pages << " in "
      << apart.runs;
}

// Section 4.3.1: rows, wrappers and nodes of one size class in turns.
TEST(played_pattern, nodes_of_a_shared_class_have_others_beside_them) {
  const analysis apart = played("rwn", "segregated");
  EXPECT_EQ(of(apart, "node").mixed.in_pair, 0U);
  EXPECT_EQ(of(apart, "node").caches[0].best().unused, 0U);
}

TEST(played_pattern, a_letter_without_an_object_is_refused) {
  allocation_pattern wrong = allocation_pattern_named("ndnd");
  wrong.order = "NX";
  any_placement from("segregated");
  EXPECT_THROW(played_pattern(wrong, 1, from), std::invalid_argument);
  EXPECT_EQ(from.usage().blocks, 0U);
}

}  // namespace
}  // namespace espalier::inspect
