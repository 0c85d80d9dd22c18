// Operations of citrus during the move of a successor.

#include "mutants/driver.hpp"
#include "scheduled/citrus_scenes.hpp"

namespace espalier::mutants {

void explore_all(scenes& all) {
  all.run("insert at an edge that is empty again", sim::insert_at_an_edge_that_is_empty_again, {}, 0.1);
  all.run("insert at an edge that is empty later", sim::insert_at_an_edge_that_is_empty_later, {}, 0.1);
  all.run("insert below the successor", sim::insert_below_the_successor, {}, 0.1);
  all.run("successor gets a left child", sim::successor_gets_a_left_child, {}, 0.1);
  all.run("successor goes", sim::successor_goes, {}, 0.1);
  all.run("readers beside a stopped erase", sim::readers_beside_a_stopped_erase, {}, 0.1);
  all.run("insert beside a move", sim::insert_beside_a_move);
  all.run("copy is erased during the move", sim::copy_is_erased_during_the_move);
  all.run("searches are overtaken", sim::searches_are_overtaken);
  all.run("moves that share nodes", sim::moves_that_share_nodes);
}

}  // namespace espalier::mutants
