// A window of keys that moves up and is erased at last, through a tree of several levels.

#include <cstddef>

#include "espalier/catalog/entries/olc_btree.hpp"
#include "espalier/memory/placement_concept.hpp"
#include "scheduled/maps.hpp"
#include "scheduled/scenes.hpp"

ESPALIER_CATALOG_UNIT(olc_btree)

namespace espalier::sim {
namespace {

template <class Map>
void require_at_most(std::size_t nodes, const Map& map) {
  std::size_t count = 0;
  map.visit_nodes([&](const void*, std::size_t, memory_role) { ++count; });
  require(count <= nodes, "a window of keys has more nodes than it needs");
}

ESPALIER_SCENE(moving_window, keeps_no_nodes, 1, 0.02, steps_up_to(1'000'000)) {
  using catalog::key;
  constexpr key size = 64;
  auto& map = s.make<battery::simulated_map<olc_btree<key, key>>>();
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
}  // namespace espalier::sim
