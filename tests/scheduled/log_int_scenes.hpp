#pragma once

#include <cstdint>
#include <initializer_list>

#include "espalier/map/bst/log_int.hpp"
#include "scheduled/battery.hpp"
#include "sim/explore.hpp"
#include "sim/recorded_map.hpp"

// Where published code of log_int goes wrong, as scenes for explore(): the shortest that show it.

namespace espalier::sim::log_int_scenes {

using map_type = recorded<battery::simulated_map<log_int<std::uint64_t, std::uint64_t>>>;

/// With these keys in this order, each its own value.
inline map_type& map_with(scene& s, std::initializer_list<std::uint64_t> keys) {
  auto& map = s.make<map_type>();
  for (const std::uint64_t key : keys) map.start_with(key, key);
  s.at_end([&map] { map.check(); });
  return map;
}

/// The first search ends at 20, above the key's place; the erase then hangs 20 over 5, so that the second one
/// ends at 5, below it. If 20 names the new node before 5 does, only the first finds it.
inline void search_from_above_then_from_below(scene& s) {
  auto& map = map_with(s, {10, 5, 20});
  s.thread("searches", [&map] {
    map.contains(15);
    map.contains(15);
  });
  s.thread("updates", [&map] {
    map.erase(10);
    map.insert(15, 1);
  });
}

/// 40, on the left of 90 and with 60 on its right, is marked and out of the list, and still in the tree when
/// its erase stops. If the gap before it is free, 10 goes and 30 comes, left of 60: a search for 30 ends at
/// 40, whose links lead by 10 to 60, past 30. With one guard, which keeps 10 from being given back.
inline void key_comes_beside_a_node_that_goes(scene& s) {
  auto& map = map_with(s, {10, 90, 40, 60});
  s.thread("erases", [&map] { map.erase(40); });
  s.thread("moves in", [&map] {
    auto guard = map.pin();
    map.erase(guard, 10);
    map.insert(guard, 30, 1);
    map.contains(guard, 30);
  });
}

/// The mirror image: the search leaves 60 by its succ, which leads to 90. Without a guard over all, that has
/// been given back by then.
inline void key_comes_beside_a_node_that_goes_mirrored(scene& s) {
  auto& map = map_with(s, {90, 10, 60, 40});
  s.thread("erases", [&map] { map.erase(60); });
  s.thread("moves in", [&map] {
    map.erase(90);
    map.insert(70, 1);
    map.contains(70);
  });
}

/// 30 hangs on 20 and is no neighbour of it. An erase of 30 that locks 20 when that has gone, and then goes
/// on at 10, meets the erase of 10 there.
inline void parents_go_beside_the_erase_of_a_child(scene& s) {
  auto& map = map_with(s, {10, 20, 30, 25});
  s.thread("erases the child", [&map] { map.erase(30); });
  s.thread("erases the parents", [&map] {
    map.erase(20);
    map.erase(10);
  });
}

/// As key_comes_beside_a_node_that_goes, in the tree where that was found first: 40 has been moved up in 20's
/// place meanwhile, and the insert may stand at 60 from before.
inline void key_comes_beside_a_node_that_was_moved(scene& s) {
  auto& map = map_with(s, {10, 90, 20, 15, 80, 60});
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

}  // namespace espalier::sim::log_int_scenes
