// The battery on euno_btree with two regions for each operation, and calm leaves only.

#include "espalier/catalog/entries/euno_btree.hpp"
#include "espalier/map/studied/euno_leaf.hpp"
#include "mutants/battery_program.hpp"

namespace espalier::mutants {

void explore_all(scenes& all) {
  using rung = catalog::entry<catalog::euno_rung<btree::split_htm>>;
  explore_battery<catalog::entry_list<rung>, false>("euno_btree/split_htm", all);
}

}  // namespace espalier::mutants
