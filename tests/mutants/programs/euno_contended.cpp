// The battery on euno_btree with leaves that are all contended, and are read by version.

#include "espalier/catalog/entries/euno_btree.hpp"
#include "espalier/map/studied/euno_leaf.hpp"
#include "mutants/battery_program.hpp"

namespace espalier::mutants {

void explore_all(scenes& all) {
  constexpr btree::euno_design contended{0, btree::euno_design::never, true, false, true};
  explore_battery<catalog::entry_list<catalog::entry<catalog::euno_rung<contended>>>, false>(
      "euno_btree/contended", all);
}

}  // namespace espalier::mutants
