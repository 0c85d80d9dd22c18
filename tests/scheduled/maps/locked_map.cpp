// A scan of locked_map in several batches.

#include "espalier/catalog/entries/locked_map.hpp"
#include "scheduled/long_scan.hpp"
#include "scheduled/maps.hpp"
#include "scheduled/scenes.hpp"

ESPALIER_CATALOG_UNIT(locked_map)

namespace espalier::sim {
namespace {

ESPALIER_SCENE(long_scan, new_batch, 200, 0.1) {
  beside_updates_where_it_resumes<locked_map<catalog::key, catalog::value>, 200, 64, true>(s);
}

}  // namespace
}  // namespace espalier::sim
