// Errors of published log_int code: the shortest scenes that show them.

#include "espalier/catalog/entries/log_int.hpp"
#include "scheduled/maps.hpp"
#include "scheduled/scenes.hpp"

ESPALIER_CATALOG_UNIT(log_int)

namespace espalier::sim {
namespace {

using map_type = log_int<catalog::key, catalog::value>;

/// The error shows where two switches of threads are at the right steps.
exploration_options by_order_alone() { return {.strategies = {"pct:3"}, .model = memory_model::sequential}; }

/// The first search ends at 20, above the key's place. The erase then links 20 above 5, so that the second one ends at
/// 5, below it. If 20 names the new node before 5 does, only the first search finds it.
ESPALIER_SCENE(log_int_moves, search_from_above_then_from_below, 4000, 4, by_order_alone()) {
  auto& map = map_with<map_type>(s, {10, 5, 20});
  s.thread("searches", [&map] {
    map.contains(15);
    map.contains(15);
  });
  s.thread("updates", [&map] {
    map.erase(10);
    map.insert(15, 1);
  });
}

/// The successor of 50 moves up to it. If it leads to 80 before 80 leads to it no longer, a search for a key between
/// the two ends only when the erase goes on.
ESPALIER_SCENE(log_int_moves, search_below_a_successor_that_moves, 4000) {
  auto& map = map_with<map_type>(s, {50, 20, 80, 60});
  s.thread("erases", [&map] { map.erase(50); });
  s.thread("searches", [&map] { map.contains(65); });
}

/// 40, on the left of 90 and with 60 on its right, is marked and out of the list, but still in the tree when its erase
/// stops. If the gap before it is unlocked, 10 is erased and 30 inserted, left of 60. A search for 30 then ends at 40,
/// and its links lead by 10 to 60, past 30. With one guard, so that 10 is not reclaimed.
ESPALIER_SCENE(log_int_moves, key_comes_beside_a_node_that_goes, 4000) {
  auto& map = map_with<map_type>(s, {10, 90, 40, 60});
  s.thread("erases", [&map] { map.erase(40); });
  s.thread("moves in", [&map] {
    auto guard = map.pin();
    map.erase(guard, 10);
    map.insert(guard, 30, 1);
    map.contains(guard, 30);
  });
}

/// The mirror image: the search leaves 60 by its succ, which leads to 90. Without a guard over all operations, so that
/// 90 may have been reclaimed by then.
ESPALIER_SCENE(log_int_moves, key_comes_beside_a_node_that_goes_mirrored, 4000) {
  auto& map = map_with<map_type>(s, {90, 10, 60, 40});
  s.thread("erases", [&map] { map.erase(60); });
  s.thread("moves in", [&map] {
    map.erase(90);
    map.insert(70, 1);
    map.contains(70);
  });
}

/// 10 names 20 before 30 does. A reverse scan that follows pred alone passes 20 by in between, although a search finds it.
ESPALIER_SCENE(log_int_moves, reverse_scan_beside_an_insert, 200, 1) {
  auto& map = map_with<map_type>(s, {10, 30});
  s.thread("inserts", [&map] { map.insert(20, 1); });
  s.thread("reads", [&map] {
    map.contains(20);
    map.reverse_scan(40);
  });
}

/// 30 is a child of 20 but not its neighbour in order. An erase of 30 that locks 20 after 20 was unlinked, and then
/// continues at 10, meets the erase of 10 there.
ESPALIER_SCENE(log_int_moves, parents_go_beside_the_erase_of_a_child, 4000) {
  auto& map = map_with<map_type>(s, {10, 20, 30, 25});
  s.thread("erases the child", [&map] { map.erase(30); });
  s.thread("erases the parents", [&map] {
    map.erase(20);
    map.erase(10);
  });
}

/// As key_comes_beside_a_node_that_goes, in the tree where that was first found: 40 has been moved to 20's place
/// meanwhile, and the insert may already be at 60.
ESPALIER_SCENE(log_int_moves, key_comes_beside_a_node_that_was_moved, 4000) {
  auto& map = map_with<map_type>(s, {10, 90, 20, 15, 80, 60});
  s.thread("moves in", [&map] { map.insert(30, 1); });
  s.thread("erases", [&map] {
    map.insert(40, 2);
    map.erase(20);
    map.erase(15);
    map.erase(40);
  });
  s.thread("looks", [&map] {
    map.erase(10);
    map.contains(30);
    map.contains(30);
  });
}

}  // namespace
}  // namespace espalier::sim
