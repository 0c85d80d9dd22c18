// Scenes of lazy_list: those of all lists.

#include "espalier/catalog/entries/lazy_list.hpp"
#include "scheduled/list_scenes.hpp"
#include "scheduled/maps.hpp"

ESPALIER_CATALOG_UNIT(lazy_list)

namespace espalier::sim {
namespace {

ESPALIER_LIST_SCENES(lazy_list)

}  // namespace
}  // namespace espalier::sim
