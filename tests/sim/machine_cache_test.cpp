#include "sim/machine/cache.hpp"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace espalier::sim {
namespace {

std::vector<std::uint32_t> content(const cache& c) {
  std::vector<std::uint32_t> lines;
  c.visit([&](const cache::way& w) { lines.push_back(w.line()); });
  return lines;
}

TEST(machine_cache, replaces_the_least_recently_used) {
  cache c({1, 3});
  EXPECT_FALSE(c.insert(10));
  EXPECT_FALSE(c.insert(11));
  EXPECT_FALSE(c.insert(12));
  ASSERT_NE(c.use(10), nullptr);
  ASSERT_TRUE(c.victim_for(13));
  EXPECT_EQ(c.victim_for(13)->line(), 11u);
  EXPECT_EQ(c.insert(13)->line(), 11u);
  EXPECT_EQ(c.insert(14)->line(), 12u);
  EXPECT_EQ(content(c), (std::vector<std::uint32_t>{14, 13, 10}));
}

TEST(machine_cache, looking_is_not_using) {
  for (const unsigned tree_ways : {1u, 2u}) {
    cache c({1, 2}, tree_ways);
    c.insert(1);
    c.insert(2);
    EXPECT_TRUE(c.contains(1)) << tree_ways;
    EXPECT_NE(c.find(1), nullptr) << tree_ways;
    EXPECT_EQ(c.insert(3)->line(), 1u) << tree_ways;
  }
}

TEST(machine_cache, removed_ways_are_filled_first) {
  cache c({1, 3});
  for (const std::uint32_t line : {1u, 2u, 3u}) {
    c.insert(line);
  }
  EXPECT_TRUE(c.remove(2));
  EXPECT_FALSE(c.remove(2));
  EXPECT_EQ(content(c), (std::vector<std::uint32_t>{3, 1}));
  EXPECT_FALSE(c.insert(4));
  EXPECT_EQ(c.insert(5)->line(), 1u);
  c.clear();
  EXPECT_TRUE(content(c).empty());
}

TEST(machine_cache, marks_move_with_their_line) {
  cache c({1, 2});
  c.insert(1);
  c.find(1)->mark(true);
  c.insert(2);
  EXPECT_FALSE(c.find(2)->marked());
  EXPECT_TRUE(c.find(1)->marked());
  EXPECT_TRUE(c.insert(3)->marked());
  c.insert(1);
  EXPECT_FALSE(c.find(1)->marked());
}

TEST(machine_cache, holds_line_zero_and_the_largest) {
  cache c({1, 2});
  EXPECT_FALSE(c.contains(0));
  const auto largest = static_cast<std::uint32_t>(cache::line_limit - 1);
  EXPECT_FALSE(c.contains(largest));
  c.insert(0);
  c.insert(largest);
  EXPECT_TRUE(c.contains(0));
  EXPECT_TRUE(c.contains(largest));
  EXPECT_EQ(c.insert(5)->line(), 0u);
}

// With ways in trees.

TEST(machine_cache_in_trees, replaces_where_the_bits_lead) {
  cache c({1, 4}, 4);
  for (const std::uint32_t line : {10u, 11u, 12u, 13u}) {
    EXPECT_FALSE(c.insert(line));
  }
  ASSERT_NE(c.use(10), nullptr);
  // The other pair's, of which 13 was used later; exact order would take 11.
  EXPECT_EQ(c.victim_for(14)->line(), 12u);
  EXPECT_EQ(c.insert(14)->line(), 12u);
  EXPECT_EQ(content(c), (std::vector<std::uint32_t>{10, 11, 14, 13}));
  EXPECT_EQ(c.insert(15)->line(), 11u);
  EXPECT_EQ(c.use(11), nullptr);
}

TEST(machine_cache_in_trees, removed_ways_are_filled_first) {
  cache c({1, 4}, 4);
  for (const std::uint32_t line : {1u, 2u, 3u, 4u}) {
    c.insert(line);
  }
  EXPECT_TRUE(c.remove(4));
  EXPECT_FALSE(c.remove(4));
  EXPECT_EQ(c.use(4), nullptr) << "the latest used, but gone";
  EXPECT_FALSE(c.victim_for(5));
  EXPECT_FALSE(c.insert(5));
  EXPECT_EQ(content(c), (std::vector<std::uint32_t>{1, 2, 3, 5}));
  EXPECT_TRUE(c.remove(2));
  EXPECT_EQ(content(c), (std::vector<std::uint32_t>{1, 3, 5}));
  EXPECT_FALSE(c.insert(6));
  EXPECT_EQ(content(c), (std::vector<std::uint32_t>{1, 6, 3, 5})) << "the others stay in their ways";
  c.clear();
  EXPECT_TRUE(content(c).empty());
  EXPECT_FALSE(c.insert(6));
}

TEST(machine_cache_in_trees, marks_stay_with_their_line) {
  cache c({1, 2}, 2);
  c.insert(1);
  c.use(1)->mark(true);
  c.insert(2);
  EXPECT_TRUE(c.find(1)->marked());
  EXPECT_FALSE(c.use(2)->marked());
  EXPECT_TRUE(c.insert(3)->marked());
  EXPECT_FALSE(c.find(3)->marked());
}

TEST(machine_cache_in_trees, every_set_has_its_own) {
  cache c({2, 2, 2}, 2);
  std::set<unsigned> sets;
  for (std::uint32_t line = 0; line < 64; ++line) {
    c.insert(line);
    EXPECT_NE(c.use(line), nullptr) << line;
    sets.insert(c.set_of(line));
  }
  EXPECT_EQ(sets.size(), 4u);
  EXPECT_EQ(content(c).size(), 8u);
}

TEST(machine_cache, spreads_over_sets_that_are_no_power_of_two) {
  cache c({3, 1});
  for (std::uint32_t line = 0; line < 3; ++line) {
    EXPECT_FALSE(c.insert(line));
  }
  EXPECT_EQ(c.insert(4)->line(), 1u);
  EXPECT_EQ(c.insert(5)->line(), 2u);
}

TEST(machine_cache, uses_every_set_of_every_slice) {
  const cache c({4, 1, 6});
  std::set<unsigned> sets;
  for (std::uint32_t line = 0; line < 4096; ++line) {
    ASSERT_EQ(c.set_of(line), c.set_of(line));
    ASSERT_EQ(c.set_of(line) % 4, line % 4);
    sets.insert(c.set_of(line));
  }
  EXPECT_EQ(sets.size(), 24u);
  EXPECT_EQ(*sets.rbegin(), 23u);
}

}  // namespace
}  // namespace espalier::sim
