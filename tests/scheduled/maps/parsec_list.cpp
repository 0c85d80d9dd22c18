// Scenes of parsec_list: those of all lists.

#include "espalier/catalog/entries/parsec_list.hpp"
#include "scheduled/list_scenes.hpp"
#include "scheduled/maps.hpp"

ESPALIER_CATALOG_UNIT(parsec_list)

namespace espalier::sim {
namespace {

ESPALIER_LIST_SCENES(parsec_list)

}  // namespace
}  // namespace espalier::sim
