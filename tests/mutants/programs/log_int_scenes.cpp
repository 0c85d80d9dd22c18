// The scenes in which published code of log_int fails.

#include "scheduled/log_int_scenes.hpp"

#include "mutants/driver.hpp"

namespace espalier::mutants {

void explore_all(scenes& all) {
  using namespace sim::log_int_scenes;
  sim::exploration_options how;
  // The error is one of order alone, and shows where two switches of threads are at the right steps.
  how.model = sim::memory_model::sequential;
  how.strategies = {"pct:3"};
  all.run("search_from_above_then_from_below", search_from_above_then_from_below, how, 4);
  all.run("search_below_a_successor_that_moves", search_below_a_successor_that_moves);
  all.run("key_comes_beside_a_node_that_goes", key_comes_beside_a_node_that_goes);
  all.run("key_comes_beside_a_node_that_goes_mirrored", key_comes_beside_a_node_that_goes_mirrored);
  all.run("reverse_scan_beside_an_insert", reverse_scan_beside_an_insert);
  all.run("parents_go_beside_the_erase_of_a_child", parents_go_beside_the_erase_of_a_child);
}

}  // namespace espalier::mutants
