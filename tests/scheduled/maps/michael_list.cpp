// Scenes of michael_list: those of all lists.

#include "espalier/catalog/entries/michael_list.hpp"
#include "scheduled/list_scenes.hpp"
#include "scheduled/maps.hpp"

ESPALIER_CATALOG_UNIT(michael_list)

namespace espalier::sim {
namespace {

ESPALIER_LIST_SCENES(michael_list)

}  // namespace
}  // namespace espalier::sim
