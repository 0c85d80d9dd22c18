// Scenes of optik_list: those of all lists.

#include "espalier/catalog/entries/optik_list.hpp"
#include "scheduled/list_scenes.hpp"
#include "scheduled/maps.hpp"

ESPALIER_CATALOG_UNIT(optik_list)

namespace espalier::sim {
namespace {

ESPALIER_LIST_SCENES(optik_list)

}  // namespace
}  // namespace espalier::sim
