// Relocations of int_lf that other threads find half done.

#include <atomic>
#include <cstdint>

#include "espalier/catalog/entries/int_lf.hpp"
#include "scheduled/maps.hpp"
#include "scheduled/scenes.hpp"
#include "sim/recorded_map.hpp"

ESPALIER_CATALOG_UNIT(int_lf)

namespace espalier::sim {
namespace {

using map_type = int_lf<catalog::key, catalog::value>;

/// The target loses its left child, so that it can be marked, while its successor waits for the decision. The helper
/// there pins only after the target has been retired.
ESPALIER_SCENE(int_lf_relocations, target_goes_otherwise, 8000) {
  auto& map = map_with<map_type>(s, {50, 20, 80});
  auto& gone = s.make<std::atomic<bool>>(false);
  s.thread("relocates", [&] { map.erase(50); });
  s.thread("erases", [&] {
    map.erase(20);
    map.erase(50);
    gone.store(true);
  });
  s.thread("helps", [&] {
    while (!gone.load()) wait_for_others();
    map.insert(70, 1);
  });
}

/// The node through which a helper came is erased, and a node below it becomes a successor.
ESPALIER_SCENE(int_lf_relocations, path_goes, 8000) {
  auto& map = map_with<map_type>(s, {50, 20, 60, 80});
  s.thread("relocates", [&] {
    map.erase(60);
    map.erase(50);
  });
  s.thread("helps", [&] { map.insert(70, 1); });
  s.thread("reads", [&] {
    map.find(80);
    map.scan(0);
  });
}

/// A node is unlinked and freed, and its address recurs at the same edge, while a helper that pinned in between is late.
ESPALIER_SCENE(int_lf_relocations, edge_recurs, 8000, 1, {.memory = freed_memory::reused}) {
  auto& map = map_with<map_type>(s, {20, 10});
  s.thread("erases", [&] {
    map.erase(10);
    map.insert(5, 1);
    map.find(5);
  });
  s.thread("helps", [&] { map.erase(10); });
}

/// The entry that moves up is erased too: at its old place, or at the new one by a second relocation there.
ESPALIER_SCENE(int_lf_relocations, target_twice, 8000) {
  auto& map = map_with<map_type>(s, {50, 20, 80, 60, 90});
  s.thread("first", [&] { map.erase(50); });
  s.thread("second", [&] { map.erase(60); });
  s.thread("third", [&] {
    map.find(80);
    map.insert_or_assign(80, 1);
    map.find(80);
  });
}

/// A value that recurs while its key moves and a helper may arrive late.
ESPALIER_SCENE(int_lf_relocations, value_recurs, 8000) {
  auto& map = s.make<recorded<battery::simulated_map<map_type>>>();
  for (const std::uint64_t k : {50, 20, 80}) map.start_with(k, 1);
  s.thread("relocates", [&] { map.erase(50); });
  s.thread("assigns", [&] {
    for (const std::uint64_t v : {2, 1, 2}) map.insert_or_assign(80, v);
  });
  s.thread("helps", [&] {
    map.insert(70, 1);
    map.find(80);
  });
  s.at_end([&] { map.check(); });
}

}  // namespace
}  // namespace espalier::sim
