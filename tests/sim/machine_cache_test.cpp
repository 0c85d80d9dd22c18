// What the simulated machine's caches hold: exact order, trees of bits, and sets.

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "sim/machine/cache.hpp"

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

struct shape {
  unsigned ways;
  unsigned tree_ways;
  /// Uses of others after which a way may be the victim.
  unsigned shortest;
};

class machine_pseudo_lru : public testing::TestWithParam<shape> {
 protected:
  static pseudo_lru used_at_random(std::mt19937& random) {
    pseudo_lru order(1, GetParam().ways, GetParam().tree_ways);
    for (unsigned i = 0; i < 100; ++i) order.use(0, static_cast<unsigned>(random() % GetParam().ways));
    return order;
  }

  /// Whether some sequence of so many uses of other ways makes `way` the victim.
  static bool can_become_victim(const pseudo_lru& order, unsigned way, unsigned uses) {
    if (order.victim(0) == way) return true;
    if (uses == 0) return false;
    for (unsigned other = 0; other < GetParam().ways; ++other) {
      if (other == way) continue;
      pseudo_lru next = order;
      next.use(0, other);
      if (can_become_victim(next, way, uses - 1)) return true;
    }
    return false;
  }
};

TEST_P(machine_pseudo_lru, misses_take_every_way_once) {
  std::mt19937 random(1);
  for (unsigned repeat = 0; repeat < 50; ++repeat) {
    pseudo_lru order = used_at_random(random);
    std::set<unsigned> taken;
    for (unsigned miss = 0; miss < GetParam().ways; ++miss) {
      const unsigned victim = order.victim(0);
      taken.insert(victim);
      order.use(0, victim);
      EXPECT_EQ(order.latest(0), victim);
    }
    EXPECT_EQ(taken.size(), GetParam().ways);
  }
}

TEST_P(machine_pseudo_lru, a_way_is_kept_for_so_many_uses_and_no_more) {
  std::mt19937 random(2);
  for (unsigned repeat = 0; repeat < 3; ++repeat) {
    pseudo_lru order = used_at_random(random);
    const auto way = static_cast<unsigned>(random() % GetParam().ways);
    order.use(0, way);
    EXPECT_FALSE(can_become_victim(order, way, GetParam().shortest - 1)) << way;
    EXPECT_TRUE(can_become_victim(order, way, GetParam().shortest)) << way;
  }
}

TEST_P(machine_pseudo_lru, using_the_latest_again_changes_nothing) {
  std::mt19937 random(3);
  pseudo_lru order = used_at_random(random);
  pseudo_lru again = order;
  for (unsigned i = 0; i < 5; ++i) again.use(0, order.latest(0));
  for (unsigned miss = 0; miss < 2 * GetParam().ways; ++miss) {
    ASSERT_EQ(again.victim(0), order.victim(0));
    again.use(0, again.victim(0));
    order.use(0, order.victim(0));
  }
}

INSTANTIATE_TEST_SUITE_P(shapes, machine_pseudo_lru,
                         testing::Values(shape{8, 8, 3}, shape{16, 16, 4}, shape{12, 4, 4}, shape{4, 2, 2},
                                         shape{4, 1, 3}, shape{2, 2, 1}),
                         [](const auto& param) {
                           return std::to_string(param.param.ways) + "_in_trees_of_" +
                                  std::to_string(param.param.tree_ways);
                         });

TEST(machine_pseudo_lru_trees, of_one_way_are_exact_lru_order) {
  std::mt19937 random(4);
  pseudo_lru order(1, 8, 1);
  std::vector<unsigned> oldest_first(8);
  std::iota(oldest_first.rbegin(), oldest_first.rend(), 0U);
  // As the order is after a clear.
  EXPECT_EQ(order.victim(0), 0U);
  for (const unsigned way : {7U, 6U, 5U, 4U, 3U, 2U, 1U, 0U}) order.use(0, way);
  for (unsigned i = 0; i < 1000; ++i) {
    ASSERT_EQ(order.victim(0), oldest_first.front());
    const auto way = static_cast<unsigned>(random() % 8);
    std::erase(oldest_first, way);
    oldest_first.push_back(way);
    order.use(0, way);
  }
}

// Known cases, by hand.
TEST(machine_pseudo_lru_trees, a_use_turns_the_path_away) {
  pseudo_lru order(1, 8, 8);
  for (unsigned way = 0; way < 8; ++way) order.use(0, way);
  EXPECT_EQ(order.victim(0), 0U);
  order.use(0, 0);
  EXPECT_EQ(order.victim(0), 4U);  // exact order: 1
  order.use(0, 5);
  EXPECT_EQ(order.victim(0), 2U);
  order.use(0, 2);
  EXPECT_EQ(order.victim(0), 6U);
}

TEST(machine_pseudo_lru_trees, the_tree_that_was_used_least_recently_gives_the_victim) {
  pseudo_lru order(1, 12, 4);
  for (unsigned way = 0; way < 12; ++way) order.use(0, way);
  EXPECT_EQ(order.victim(0), 0U);
  order.use(0, 3);
  EXPECT_EQ(order.victim(0), 4U);
  order.use(0, 4);
  EXPECT_EQ(order.victim(0), 8U);
  order.use(0, 9);
  // The first tree again: 3 was used, so that it leads to 0.
  EXPECT_EQ(order.victim(0), 0U);
}

TEST(machine_pseudo_lru_sets, are_apart_and_cleared_together) {
  pseudo_lru order(3, 8, 8);
  order.use(1, 0);
  EXPECT_EQ(order.victim(0), 0U);
  EXPECT_EQ(order.victim(1), 4U);
  EXPECT_EQ(order.victim(2), 0U);
  order.use(2, 3);
  EXPECT_EQ(order.latest(2), 3U);
  order.clear();
  for (const unsigned set : {0U, 1U, 2U}) {
    EXPECT_EQ(order.victim(set), 0U);
    EXPECT_EQ(order.latest(set), 0U);
  }
}

TEST(machine_pseudo_lru_shapes, that_are_possible) {
  for (const auto& [ways, tree_ways] : std::vector<std::pair<unsigned, unsigned>>{
           {8, 8}, {12, 4}, {16, 16}, {32, 32}, {32, 4}, {8, 1}, {1, 1}})
    EXPECT_TRUE(pseudo_lru::possible(ways, tree_ways)) << ways << ' ' << tree_ways;
  for (const auto& [ways, tree_ways] : std::vector<std::pair<unsigned, unsigned>>{
           {8, 0}, {12, 8}, {12, 12}, {12, 6}, {64, 64}, {32, 2}, {12, 1}})
    EXPECT_FALSE(pseudo_lru::possible(ways, tree_ways)) << ways << ' ' << tree_ways;
}

}  // namespace
}  // namespace espalier::sim
