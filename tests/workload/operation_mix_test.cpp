#include "espalier/workload/operation_mix.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "workload/chi_square.hpp"

namespace espalier::workload {
namespace {

using ::testing::AllOf;
using testing::chi_square;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::size_t index_of(map_operation op) {
  const auto* const found = std::find(drawn_operations.begin(), drawn_operations.end(), op);
  return static_cast<std::size_t>(found - drawn_operations.begin());
}

std::string refusal(std::string_view text) {
  try {
    operation_mix::parse(text);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

TEST(operation_mix, parses_lookup_insert_erase_percentages) {
  const auto mix = operation_mix::parse("90/4/6");
  EXPECT_EQ(mix.name, "90/4/6");
  EXPECT_THAT(mix.percent, ElementsAre(90, 4, 6, 0, 0, 0));
  EXPECT_EQ(mix.share(map_operation::erase), 6U);
  EXPECT_EQ(mix.share(map_operation::contains), 0U);
  EXPECT_EQ(mix.distribution, std::nullopt);
  EXPECT_THAT(operation_mix::parse("0/50/50").percent, ElementsAre(0, 50, 50, 0, 0, 0));
  EXPECT_EQ(operation_mix::parse("090/5/5").name, "90/5/5");
}

TEST(operation_mix, knows_the_core_workloads_of_ycsb) {
  struct expectation {
    const char* name;
    operation_shares percent;
    const char* request;
  };
  // find, insert, erase, insert_or_assign, scan, update
  const std::array<expectation, 6> table{{
      {"ycsb-a", {50, 0, 0, 50, 0, 0}, "scrambled-zipfian:0.99"},
      {"ycsb-b", {95, 0, 0, 5, 0, 0}, "scrambled-zipfian:0.99"},
      {"ycsb-c", {100, 0, 0, 0, 0, 0}, "scrambled-zipfian:0.99"},
      {"ycsb-d", {95, 5, 0, 0, 0, 0}, "latest:0.99"},
      {"ycsb-e", {0, 5, 0, 0, 95, 0}, "scrambled-zipfian:0.99"},
      {"ycsb-f", {50, 0, 0, 0, 0, 50}, "scrambled-zipfian:0.99"},
  }};
  for (const auto& [name, percent, request] : table) {
    const auto mix = operation_mix::parse(name);
    EXPECT_EQ(mix.name, name);
    EXPECT_EQ(mix.percent, percent) << name;
    EXPECT_EQ(mix.distribution, distribution_spec::parse(request)) << name;
    EXPECT_EQ(mix.max_scan, 100U);
  }
  EXPECT_EQ(operation_mix::parse("YCSB-E").name, "ycsb-e");
}

TEST(operation_mix, draws_operations_by_their_shares) {
  const operation_mix mix("all", {40, 20, 5, 10, 24, 1});
  random_generator random(5);
  std::vector<std::uint64_t> seen(drawn_operations.size());
  for (int i = 0; i < 200'000; ++i) ++seen.at(index_of(mix.draw(random)));
  const auto fit = chi_square(seen, {40, 20, 5, 10, 24, 1});
  EXPECT_TRUE(fit.accepted()) << fit;
  EXPECT_FALSE(chi_square(seen, {39, 21, 5, 10, 24, 1}).accepted());
}

// Measurements of different versions are compared: a seed must go on to mean the same operations.
TEST(operation_mix, draws_the_same_operations_from_a_seed_in_every_version) {
  const operation_mix mix("all", {40, 20, 5, 10, 24, 1});
  random_generator random(5);
  std::string drawn;
  for (int i = 0; i < 100; ++i) drawn += word_of(mix.draw(random)).front();
  EXPECT_EQ(
      drawn,
      "sllllslliliiuilissllsiulllslulsuiliiuuuiillirslllliislsillllllsleislulilllllslliielslillleilllslslis");
}

TEST(operation_mix, never_draws_what_has_no_share) {
  const auto mix = operation_mix::parse("ycsb-c");
  random_generator random(6);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(mix.draw(random), map_operation::find);
}

TEST(operation_mix, draws_scan_lengths_uniformly) {
  const auto mix = operation_mix::parse("ycsb-e");
  random_generator random(7);
  std::vector<std::uint64_t> seen(101);
  for (int i = 0; i < 100'000; ++i) ++seen.at(mix.draw_scan_length(random));
  EXPECT_EQ(seen[0], 0U);
  seen.erase(seen.begin());
  const auto fit = chi_square(seen, std::vector<double>(100, 1));
  EXPECT_TRUE(fit.accepted()) << fit;
}

TEST(operation_mix, says_which_sum_it_found_and_shows_an_example) {
  EXPECT_THAT(refusal("90/5/6"), AllOf(HasSubstr("'90/5/6' sums to 101"), HasSubstr("90/5/5")));
  EXPECT_THAT(refusal("0/0/0"), HasSubstr("sums to 0"));
  EXPECT_THAT(refusal("4294967295/4294967295/2"), HasSubstr("sums to 8589934592"));
  EXPECT_THROW(operation_mix("short", {50, 0, 0, 0, 0, 49}), std::invalid_argument);
  EXPECT_THROW(operation_mix("no scans", {100, 0, 0, 0, 0, 0}, 0), std::invalid_argument);
}

TEST(operation_mix, refuses_other_text) {
  for (const auto* text : {"", "90", "90/10", "90/5/5/0", "90/5/", "/5/95", "90/-5/15", "90.0/5/5", "90 /5/5",
                           "99999999999/0/0", "ycsb-g", "ycsb", "a", "read-mostly"}) {
    EXPECT_THAT(refusal(text),
                AllOf(HasSubstr("unknown operation mix"), HasSubstr("90/5/5"), HasSubstr("ycsb-a to ycsb-f")))
        << text;
  }
}

TEST(word_of, names_each_operation_in_results) {
  EXPECT_EQ(word_of(map_operation::find), "lookup");
  EXPECT_EQ(word_of(map_operation::contains), "contains");
  EXPECT_EQ(word_of(map_operation::insert), "insert");
  EXPECT_EQ(word_of(map_operation::insert_or_assign), "update");
  EXPECT_EQ(word_of(map_operation::erase), "erase");
  EXPECT_EQ(word_of(map_operation::exchange), "exchange");
  EXPECT_EQ(word_of(map_operation::extract), "extract");
  EXPECT_EQ(word_of(map_operation::update), "read_modify_write");
  EXPECT_EQ(word_of(map_operation::scan), "scan");
}

}  // namespace
}  // namespace espalier::workload
