// Scenes of mcs_list: those of all lists.

#include "espalier/catalog/entries/mcs_list.hpp"
#include "scheduled/list_scenes.hpp"
#include "scheduled/maps.hpp"

ESPALIER_CATALOG_UNIT(mcs_list)

namespace espalier::sim {
namespace {

ESPALIER_LIST_SCENES(mcs_list)

}  // namespace
}  // namespace espalier::sim
