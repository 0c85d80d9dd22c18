// A window of keys that moves up and is erased at last, through a tree of several levels.

#include <cstddef>
#include <cstdint>

#include "espalier/map/studied/olc_btree.hpp"
#include "espalier/memory/placement_concept.hpp"
#include "mutants/driver.hpp"
#include "scheduled/battery.hpp"

namespace espalier::mutants {
namespace {

using key = std::uint64_t;

template <class Map>
void require_at_most(std::size_t nodes, const Map& map) {
  std::size_t count = 0;
  map.visit_nodes([&](const void*, std::size_t, memory_role) { ++count; });
  sim::require(count <= nodes, "a window of keys has more nodes than it needs");
}

template <class Map>
void moves(sim::scene& s) {
  constexpr key size = 64;
  auto& map = s.make<sim::battery::simulated_map<Map>>();
  for (key k = 0; k < size; ++k) map.insert(k, k);
  // Each leaf has an entry, and there are fewer inner nodes than leaves.
  constexpr std::size_t most = 2 * size - 1;
  s.thread("moves", [&map] {
    require_at_most(most, map);
    for (key k = 0; k < 2 * size; ++k) {
      map.insert(k + size, k);
      map.erase(k);
    }
    require_at_most(most, map);
    for (key k = 2 * size; k < 3 * size; ++k) map.erase(k);
    require_at_most(1, map);  // the last leaf stays
  });
}

}  // namespace

void explore_all(scenes& all) {
  sim::exploration_options how;
  how.step_budget = 1'000'000;
  all.run("moves", moves<olc_btree<key, key>>, how, 0.02);
}

}  // namespace espalier::mutants
