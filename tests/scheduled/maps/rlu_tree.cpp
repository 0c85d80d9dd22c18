// Scenes of rlu_tree: an erase that moves an entry up, beside updates of what it reads and locks.

#include "espalier/catalog/entries/rlu_tree.hpp"
#include "scheduled/maps.hpp"
#include "scheduled/scenes.hpp"

ESPALIER_CATALOG_UNIT(rlu_tree)

namespace espalier::sim {
namespace {

using tree = rlu_tree<catalog::key, catalog::value>;

/// The erase of 50 moves 60 up. 55 belongs left of 60, and 65 right of it.
ESPALIER_SCENE(rlu_tree_races, inserts_beside_the_successor, 500) {
  auto& map = map_with<tree>(s, {50, 20, 80, 60});
  s.thread("moves", [&map] { map.erase(50); });
  s.thread("before it", [&map] {
    map.insert(55, 2);
    map.find(55);
  });
  s.thread("behind it", [&map] {
    map.insert(65, 3);
    map.find(60);
  });
}

/// The successor is the child of the erased node, and has a child.
ESPALIER_SCENE(rlu_tree_races, the_successor_is_the_child, 500) {
  auto& map = map_with<tree>(s, {50, 20, 60, 70});
  s.thread("moves", [&map] { map.erase(50); });
  s.thread("updates", [&map] {
    map.insert(55, 2);
    map.insert_or_assign(60, 3);
  });
  s.thread("reads", [&map] {
    map.find(70);
    map.scan(0);
  });
}

/// The successor, and the node above it, are erased by others.
ESPALIER_SCENE(rlu_tree_races, the_successor_goes, 500) {
  auto& map = map_with<tree>(s, {50, 20, 80, 70, 60, 65});
  s.thread("moves", [&map] {
    map.erase(50);
    map.insert(50, 2);
  });
  s.thread("its node", [&map] {
    map.erase(60);
    map.find(65);
  });
  s.thread("the one above", [&map] { map.erase(70); });
}

/// A reader of the entry that moves, in both directions.
ESPALIER_SCENE(rlu_tree_races, readers_beside_a_move, 500) {
  auto& map = map_with<tree>(s, {50, 20, 80, 60});
  s.thread("moves", [&map] {
    map.erase(50);
    map.erase(60);
  });
  s.thread("reads", [&map] {
    map.find(60);
    map.reverse_scan(~std::uint64_t{0});
  });
  s.thread("assigns", [&map] {
    map.insert_or_assign(60, 2);
    map.find(60);
  });
}

/// An insert below a node of one child that is erased.
ESPALIER_SCENE(rlu_tree_races, an_insert_below_an_erased_node, 500) {
  auto& map = map_with<tree>(s, {50, 30, 40});
  s.thread("erases", [&map] { map.erase(30); });
  s.thread("inserts", [&map] {
    map.insert(20, 2);
    map.find(20);
  });
  s.thread("above", [&map] {
    map.erase(50);
    map.find(40);
  });
}

/// Two erases that each read what the other one changes: a node of two children, and a node on the way to its successor.
ESPALIER_SCENE(rlu_tree_races, two_moves, 500) {
  auto& map = map_with<tree>(s, {50, 20, 80, 60, 90, 55, 65});
  s.thread("first", [&map] {
    map.erase(50);
    map.find(55);
  });
  s.thread("second", [&map] {
    map.erase(60);
    map.find(65);
  });
  s.thread("third", [&map] {
    map.erase(80);
    map.scan(0);
  });
}

}  // namespace
}  // namespace espalier::sim
