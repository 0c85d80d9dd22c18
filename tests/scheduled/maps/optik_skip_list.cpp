// Towers of optik_skip_list with two levels, which threads link and unlink at once.

#include "espalier/catalog/entries/optik_skip_list.hpp"
#include "scheduled/towers.hpp"

ESPALIER_CATALOG_UNIT(optik_skip_list)

namespace espalier::sim {
namespace {

using map_type =
    optik_skip_list<catalog::key, catalog::value, map_traits, std::less<catalog::key>, levels_of<2>>;

ESPALIER_SCENE(optik_towers, two_erases, 1000) { two_erases_of_one_key<map_type>(s); }
ESPALIER_SCENE(optik_towers, erased_while_linked, 2000) { erased_while_it_is_linked<map_type>(s); }
ESPALIER_SCENE(optik_towers, three_lives_of_a_key, 4000) { inserted_erased_and_inserted_again<map_type>(s); }
ESPALIER_SCENE(optik_towers, key_returns, 1000) { finds_beside_a_key_that_returns<map_type>(s); }
ESPALIER_SCENE(optik_towers, neighbours, 2000) { neighbours_go<map_type>(s); }

}  // namespace
}  // namespace espalier::sim
