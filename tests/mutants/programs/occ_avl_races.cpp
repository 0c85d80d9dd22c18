// A node of occ_avl changes while other threads rely on what they read of it: it becomes present again
// between two checks of a find, or before a repair comes to it, or loses keys to its child.

#include <cstdint>
#include <initializer_list>

#include "espalier/map/bst/occ_avl.hpp"
#include "mutants/driver.hpp"
#include "scheduled/battery.hpp"
#include "sim/recorded_map.hpp"

namespace espalier::mutants {
namespace {

using key = std::uint64_t;
using map_type = sim::recorded<sim::battery::simulated_map<occ_avl<key, key>>>;

map_type& map_with(sim::scene& s, std::initializer_list<key> keys) {
  auto& map = s.make<map_type>();
  for (const key k : keys) map.start_with(k, k);
  s.at_end([&map] { map.check(); });
  return map;
}

/// The node of 50 has two children throughout.
void revival_beside_finds(sim::scene& s) {
  auto& map = map_with(s, {50, 20, 80});
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
void revival_by_another_beside_finds(sim::scene& s) {
  auto& map = map_with(s, {50, 20, 80});
  s.thread("erases", [&] { map.erase(50); });
  s.thread("inserts", [&] { map.insert(50, 1); });
  s.thread("finds", [&] {
    map.find(50);
    map.find(50);
  });
}

/// Without 50 and 70, the node of 50 moves down below 40 and is left with one child; the subtree is lower
/// than before. The height of the node of 100 must change though the node of 50 is to stay.
void revival_after_a_rotation(sim::scene& s) {
  auto& map = map_with(s, {100, 50, 200, 20, 60, 150, 300, 10, 40, 70, 120, 30});
  s.thread("rotates", [&] {
    map.erase(50);
    map.erase(70);
  });
  s.thread("revives", [&] { map.insert(50, 1); });
}

/// Without 40 the node of 10 moves up and hands that of 15 on to the node of 20, below which 18 turns it down below 17.
/// A find that read the edge from 10 to 15 before must not go on below 15.
void two_rotations_beside_a_find(sim::scene& s) {
  auto& map = map_with(s, {20, 10, 30, 5, 15, 40, 3, 17});
  s.thread("rotates", [&] {
    map.erase(40);
    map.insert(18, 1);
  });
  s.thread("finds", [&] { map.find(17); });
}

}  // namespace

void explore_all(scenes& all) {
  all.run("revival beside finds", revival_beside_finds);
  all.run("revival by another beside finds", revival_by_another_beside_finds);
  all.run("revival after a rotation", revival_after_a_rotation);
  all.run("two rotations beside a find", two_rotations_beside_a_find);
}

}  // namespace espalier::mutants
