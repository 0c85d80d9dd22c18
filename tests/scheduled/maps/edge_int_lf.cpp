// Keys of edge_int_lf that move up while an operation is delayed in its seek.

#include "espalier/catalog/entries/edge_int_lf.hpp"
#include "scheduled/maps.hpp"
#include "scheduled/scenes.hpp"

ESPALIER_CATALOG_UNIT(edge_int_lf)

namespace espalier::sim {
namespace {

using map_type = edge_int_lf<catalog::key, catalog::value>;

/// A node is linked to the empty edge that an insert has read, at the address of one that was there before,
/// and moves up: the edge is empty again, for larger keys.
ESPALIER_SCENE(edge_int_lf_moves, empty_for_other_keys, 1000, 1, {.memory = freed_memory::reused}) {
  auto& map = map_with<map_type>(s, {50, 20, 80});
  map.map().insert(75, 1);
  map.map().erase(75);
  s.thread("sleeps", [&] { map.insert(60, 60); });
  s.thread("moves", [&] {
    map.insert(70, 70);
    map.erase(50);
  });
}

/// The anchor of a seek, or of a scan, is unlinked, and the key moves past it.
template <class Seek>
void anchor_goes_first(scene& s, Seek seek) {
  auto& map = map_with<map_type>(s, {50, 20, 60, 80, 70});
  s.thread("sleeps", [&map, seek] { seek(map); });
  s.thread("moves", [&] {
    map.erase(60);
    map.erase(50);
  });
}
ESPALIER_SCENE(edge_int_lf_moves, anchor_of_a_find_goes_first, 1000) {
  anchor_goes_first(s, [](auto& map) { map.find(70); });
}
ESPALIER_SCENE(edge_int_lf_moves, anchor_of_a_scan_goes_first, 1000) {
  anchor_goes_first(s, [](auto& map) { map.scan(65, 1); });
}

}  // namespace
}  // namespace espalier::sim
