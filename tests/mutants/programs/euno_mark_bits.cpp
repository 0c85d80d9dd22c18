// The battery on euno_btree with leaves that are all contended, and so have marks: those of the default come and go.

#include "espalier/catalog/entries/euno_btree.hpp"
#include "espalier/map/studied/euno_leaf.hpp"
#include "mutants/battery_program.hpp"

namespace espalier::mutants {

void explore_all(scenes& all) {
  using rung = catalog::entry<catalog::euno_rung<btree::mark_bits>>;
  explore_battery<catalog::entry_list<rung>, false>("euno_btree/mark_bits", all);
}

}  // namespace espalier::mutants
