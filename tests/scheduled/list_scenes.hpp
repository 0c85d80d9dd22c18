#pragma once

#include "scheduled/maps.hpp"
#include "scheduled/scenes.hpp"

// What every list must survive: updates of neighbours, and readers that stand on nodes that go.

namespace espalier::sim {

/// An erase of the node behind which an insert links another one.
template <class Map>
void erase_beside_an_insert_behind_it(scene& s) {
  auto& map = map_with<Map>(s, {10, 30});
  s.thread("erases", [&map] { map.erase(10); });
  s.thread("inserts", [&map] {
    map.insert(20, 2);
    map.find(20);
  });
  s.thread("reads", [&map] { map.scan(0); });
}

/// Erases of two nodes of which one leads to the other, while a third key comes behind them.
template <class Map>
void erases_of_two_neighbours(scene& s) {
  auto& map = map_with<Map>(s, {10, 20, 30});
  s.thread("first", [&map] {
    map.erase(10);
    map.find(20);
  });
  s.thread("second", [&map] {
    map.erase(20);
    map.insert(25, 2);
  });
  s.thread("reads", [&map] {
    map.find(30);
    map.scan(0);
  });
}

/// A reader comes to the first of three nodes that go.
template <class Map>
void a_chain_goes_under_a_reader(scene& s) {
  auto& map = map_with<Map>(s, {10, 20, 30, 40});
  s.thread("first", [&map] { map.erase(20); });
  s.thread("others", [&map] {
    map.erase(30);
    map.erase(10);
  });
  s.thread("reads", [&map] {
    map.find(40);
    map.scan(0);
    map.reverse_scan(~std::uint64_t{0});
  });
}

/// One of them removes the node, and the key comes again.
template <class Map>
void two_erases_of_one_key(scene& s) {
  auto& map = map_with<Map>(s, {10, 20});
  s.thread("first", [&map] {
    map.erase(20);
    map.find(20);
  });
  s.thread("second", [&map] {
    map.erase(20);
    map.insert(20, 2);
  });
  s.thread("reads", [&map] {
    map.contains(20);
    map.find(20);
  });
}

/// A key that is assigned to, and one that is taken out, beside readers and an insert behind it.
template <class Map>
void values_change_while_nodes_go(scene& s) {
  auto& map = map_with<Map>(s, {10, 20});
  s.thread("assigns", [&map] {
    map.insert_or_assign(20, 2);
    map.insert_or_assign(10, 3);
  });
  s.thread("takes", [&map] {
    map.extract(20);
    map.update(10, 1024);
  });
  s.thread("reads", [&map] {
    map.scan(0);
    map.find(10);
  });
}

/// Two keys come to one place, and one of them goes.
template <class Map>
void inserts_at_one_place(scene& s) {
  auto& map = map_with<Map>(s, {10, 40});
  s.thread("first", [&map] {
    map.insert(20, 2);
    map.find(20);
  });
  s.thread("second", [&map] {
    map.insert(30, 3);
    map.erase(20);
  });
  s.thread("reads", [&map] { map.scan(0); });
}

/// An assignment of a key that stays: no reader misses it, none meets it twice.
template <class Map>
void a_key_that_is_assigned_stays(scene& s) {
  auto& map = map_with<Map>(s, {10, 20, 30});
  s.thread("assigns", [&map] {
    map.insert_or_assign(20, 2);
    map.insert_or_assign(20, 3);
  });
  s.thread("reads", [&map] {
    map.find(20);
    map.scan(0);
    map.reverse_scan(~std::uint64_t{0});
  });
  s.thread("updates", [&map] {
    map.erase(10);
    map.insert(15, 4);
  });
}

}  // namespace espalier::sim

// NOLINTBEGIN(cppcoreguidelines-macro-usage)
#define ESPALIER_LIST_SCENE(list, name) \
  ESPALIER_SCENE(list##_races, name, 500) { name<list<catalog::key, catalog::value>>(s); }
/// All of these, as the suite <list>_races.
#define ESPALIER_LIST_SCENES(list)                            \
  ESPALIER_LIST_SCENE(list, erase_beside_an_insert_behind_it) \
  ESPALIER_LIST_SCENE(list, erases_of_two_neighbours)         \
  ESPALIER_LIST_SCENE(list, inserts_at_one_place)             \
  ESPALIER_LIST_SCENE(list, a_chain_goes_under_a_reader)      \
  ESPALIER_LIST_SCENE(list, two_erases_of_one_key)            \
  ESPALIER_LIST_SCENE(list, values_change_while_nodes_go)     \
  ESPALIER_LIST_SCENE(list, a_key_that_is_assigned_stays)
// NOLINTEND(cppcoreguidelines-macro-usage)
