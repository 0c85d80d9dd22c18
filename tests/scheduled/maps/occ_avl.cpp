// A node of occ_avl changes while other threads rely on what they read of it: it becomes present again between two checks
// of a find, or before a repair comes to it, or loses keys to its child.

#include "espalier/catalog/entries/occ_avl.hpp"
#include "scheduled/maps.hpp"
#include "scheduled/scenes.hpp"

ESPALIER_CATALOG_UNIT(occ_avl)

namespace espalier::sim {
namespace {

using map_type = occ_avl<catalog::key, catalog::value>;

/// The node of 50 has two children throughout.
ESPALIER_SCENE(occ_avl_races, revival_beside_finds, 1000) {
  auto& map = map_with<map_type>(s, {50, 20, 80});
  s.thread("erases and inserts", [&] {
    map.erase(50);
    map.insert(50, 1);
  });
  s.thread("finds", [&] {
    map.find(50);
    map.find(50);
  });
}

/// The same by two threads: a find that began before the erase may see the value of the next life.
ESPALIER_SCENE(occ_avl_races, revival_by_another_beside_finds, 1000) {
  auto& map = map_with<map_type>(s, {50, 20, 80});
  s.thread("erases", [&] { map.erase(50); });
  s.thread("inserts", [&] { map.insert(50, 1); });
  s.thread("finds", [&] {
    map.find(50);
    map.find(50);
  });
}

/// Without 50 and 70, the node of 50 moves down below 40 and is left with one child; the subtree is lower
/// than before. The height of the node of 100 must change though the node of 50 is to stay.
ESPALIER_SCENE(occ_avl_races, revival_after_a_rotation, 1000) {
  auto& map = map_with<map_type>(s, {100, 50, 200, 20, 60, 150, 300, 10, 40, 70, 120, 30});
  s.thread("rotates", [&] {
    map.erase(50);
    map.erase(70);
  });
  s.thread("revives", [&] { map.insert(50, 1); });
}

/// Without 40 the node of 10 moves up and hands that of 15 on to the node of 20, below which 18 turns it down below 17.
/// A find that read the edge from 10 to 15 before must not go on below 15.
ESPALIER_SCENE(occ_avl_races, two_rotations_beside_a_find, 1000) {
  auto& map = map_with<map_type>(s, {20, 10, 30, 5, 15, 40, 3, 17});
  s.thread("rotates", [&] {
    map.erase(40);
    map.insert(18, 1);
  });
  s.thread("finds", [&] { map.find(17); });
}

}  // namespace
}  // namespace espalier::sim
