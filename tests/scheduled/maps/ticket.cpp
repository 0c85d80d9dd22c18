// Updates and scans of ticket that are delayed.

#include "espalier/catalog/entries/ticket.hpp"
#include "scheduled/long_scan.hpp"
#include "scheduled/maps.hpp"
#include "scheduled/scenes.hpp"

ESPALIER_CATALOG_UNIT(ticket)

namespace espalier::sim {
namespace {

using map_type = ticket<catalog::key, catalog::value>;

/// One update is delayed while others change the edge that it has read until its version wraps.
ESPALIER_SCENE(ticket_races, sleeps_over_an_insert_and_an_erase, 1000) {
  auto& map = map_with<map_type>(s, {10});
  s.thread("sleeper", [&] { map.insert(30, 3); });
  s.thread("busy", [&] {
    map.insert(20, 2);
    map.erase(10);
  });
}

/// The facade pins again.
ESPALIER_SCENE(long_scan, new_pin, 200, 0.1) {
  beside_updates_where_it_resumes<map_type, 600, 512, false>(s);
}

}  // namespace
}  // namespace espalier::sim
