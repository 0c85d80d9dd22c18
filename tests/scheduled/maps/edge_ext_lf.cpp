// Updates and scans of edge_ext_lf that are delayed.

#include "espalier/catalog/entries/edge_ext_lf.hpp"
#include "scheduled/maps.hpp"
#include "scheduled/scenes.hpp"

ESPALIER_CATALOG_UNIT(edge_ext_lf)

namespace espalier::sim {
namespace {

using map_type = edge_ext_lf<catalog::key, catalog::value>;

/// Between two attempts of an erase, a helper completes it, and the key is inserted again.
ESPALIER_SCENE(edge_ext_lf_races, helped_and_inserted_again, 1000, 1, {.memory = freed_memory::reused}) {
  auto& map = map_with<map_type>(s, {10, 20, 30});
  s.thread("erases", [&] { map.erase(20); });
  s.thread("helps", [&] {
    map.insert(21, 1);
    map.insert(20, 2);
  });
}

/// A scan keeps a node that is unlinked, while the subtree to its right moves up and gets smaller keys.
ESPALIER_SCENE(edge_ext_lf_races, subtree_moves_up_beside_a_scan, 1000) {
  auto& map = map_with<map_type>(s, {10, 20, 30});
  s.thread("scan", [&] {
    auto guard = map.pin();  // without a guard the facade would drop entries that are out of order
    map.scan(guard, 0);
  });
  s.thread("update", [&] {
    map.erase(10);
    map.insert(5, 1);
  });
}

}  // namespace
}  // namespace espalier::sim
