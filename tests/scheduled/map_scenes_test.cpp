// Situations in maps that the battery rarely reaches.

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <initializer_list>

#include "espalier/map/bst/ext_lf.hpp"
#include "scheduled/battery.hpp"
#include "scheduled/citrus_scenes.hpp"
#include "scheduled/expect.hpp"
#include "scheduled/int_lf_scenes.hpp"
#include "scheduled/log_int_scenes.hpp"
#include "sim/recorded_map.hpp"

namespace {

using namespace espalier;
using namespace espalier::sim;
using namespace espalier::sim::log_int_scenes;

#define ESPALIER_SCENE(map, name, schedules) \
  TEST(map, name) { sim::expect_kept(schedules, name); }

ESPALIER_SCENE(citrus, insert_at_an_edge_that_is_empty_again, 200)
ESPALIER_SCENE(citrus, insert_at_an_edge_that_is_empty_later, 200)
ESPALIER_SCENE(citrus, insert_below_the_successor, 200)
ESPALIER_SCENE(citrus, successor_gets_a_left_child, 200)
ESPALIER_SCENE(citrus, successor_goes, 200)
ESPALIER_SCENE(citrus, readers_beside_a_stopped_erase, 200)
ESPALIER_SCENE(citrus, insert_beside_a_move, 5000)
ESPALIER_SCENE(citrus, copy_is_erased_during_the_move, 5000)
ESPALIER_SCENE(citrus, searches_are_overtaken, 5000)
ESPALIER_SCENE(citrus, moves_that_share_nodes, 5000)

// Late actions of helpers in ext_lf.

using key = std::uint64_t;
using map_type = sim::recorded<sim::battery::simulated_map<ext_lf<key, key>>>;

map_type& map_of(scene& s, std::initializer_list<key> keys) {
  auto& map = s.make<map_type>();
  for (const key k : keys) map.start_with(k, k);
  s.at_end([&map] { map.check(); });
  return map;
}

/// With addresses that are reused, and with addresses that are not.
void expect_kept_with_memory_reused_or_not(const std::function<void(scene&)>& build) {
  for (const auto memory : {sim::freed_memory::quarantined, sim::freed_memory::reused}) {
    sim::exploration_options o;
    o.memory = memory;
    sim::expect_kept(3000, build, o);
  }
}

/// The helper of an insert arrives when the new leaf has been erased again. If the old leaf were back at its edge, the
/// helper would link the unlinked router.
TEST(ext_lf, an_insert_is_helped_after_its_leaf_was_erased) {
  expect_kept_with_memory_reused_or_not([](scene& s) {
    auto& map = map_of(s, {10, 30});
    s.thread("inserts and erases", [&map] {
      map.insert(20, 1);
      map.erase(20);
    });
    s.thread("helps", [&map] { map.insert(5, 2); });
  });
}

/// The same, but the key stays and its value is assigned: each assignment is a separate leaf.
TEST(ext_lf, an_assignment_is_helped_after_the_next) {
  expect_kept_with_memory_reused_or_not([](scene& s) {
    auto& map = map_of(s, {10, 30});
    s.thread("assigns", [&map] {
      map.insert_or_assign(10, 1);
      map.insert_or_assign(10, 2);
      map.find(10);
    });
    s.thread("helps", [&map] {
      map.insert(20, 3);
      map.find(10);
    });
  });
}

/// An erase of 20 has flagged the grandparent when an insert flags the parent. The erase backs out, after its helper or
/// before it, and both reach the same outcome.
TEST(ext_lf, an_erase_backs_out_beside_its_helper) {
  expect_kept_with_memory_reused_or_not([](scene& s) {
    auto& map = map_of(s, {10, 20, 30});
    s.thread("erases", [&map] { map.erase(20); });
    s.thread("inserts below the parent", [&map] { map.insert(25, 1); });
    s.thread("inserts below the grandparent", [&map] { map.insert(5, 2); });
  });
}

/// An erase of 20 has read the word of its parent, flags the grandparent, where a helper finds it, and backs out. The
/// helper marks when records of the parent have been reclaimed and their addresses reused.
TEST(ext_lf, records_come_back_at_their_addresses) {
  expect_kept_with_memory_reused_or_not([](scene& s) {
    auto& map = map_of(s, {10, 20, 30});
    s.thread("erases", [&map] { map.erase(20); });
    s.thread("others at the parent", [&map] {
      map.insert(22, 1);
      map.erase(20);
      map.insert_or_assign(22, 2);
      map.insert_or_assign(22, 3);
    });
    s.thread("helps", [&map] { map.insert(5, 4); });
  });
}

// Helpers that find relocations late, or on a path that no longer exists.

ESPALIER_SCENE(int_lf, target_goes_otherwise, 8000)
ESPALIER_SCENE(int_lf, path_goes, 8000)
ESPALIER_SCENE(int_lf, target_twice, 8000)
ESPALIER_SCENE(int_lf, value_recurs, 8000)
ESPALIER_SCENE(int_lf, edge_recurs, 8000)

ESPALIER_SCENE(log_int, search_from_above_then_from_below, 4000)
ESPALIER_SCENE(log_int, search_below_a_successor_that_moves, 4000)
ESPALIER_SCENE(log_int, key_comes_beside_a_node_that_goes, 4000)
ESPALIER_SCENE(log_int, key_comes_beside_a_node_that_goes_mirrored, 4000)
ESPALIER_SCENE(log_int, reverse_scan_beside_an_insert, 200)
ESPALIER_SCENE(log_int, parents_go_beside_the_erase_of_a_child, 4000)
ESPALIER_SCENE(log_int, key_comes_beside_a_node_that_was_moved, 4000)

}  // namespace
