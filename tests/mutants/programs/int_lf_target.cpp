// Relocations that other threads meet half done.

#include "mutants/driver.hpp"
#include "scheduled/int_lf_scenes.hpp"

void espalier::mutants::explore_all(scenes& all) {
  all.run("path goes", sim::path_goes);
  all.run("target goes otherwise", sim::target_goes_otherwise);
  all.run("edge recurs", sim::edge_recurs, {.memory = sim::freed_memory::reused});
}
