// A scenario of the battery in which the AVL tree must relocate nodes beside erases of their neighbours. Few schedules of it
// show an error, and those of all scenarios together take long.

#include "espalier/catalog/entries/occ_avl.hpp"
#include "mutants/battery_program.hpp"

namespace espalier::mutants {

void explore_all(scenes& all) {
  explore_battery<catalog::occ_avl, true>("occ_avl", all, "relocation_beside_erase_of_the_neighbours");
}

}  // namespace espalier::mutants
