// Relocations that other threads meet half done.

#include "mutants/driver.hpp"
#include "scheduled/int_lf_scenes.hpp"

espalier::mutants::round_result espalier::mutants::explore_all(const round_options& options) {
  scenes all(options);
  all.run("path goes", sim::path_goes);
  all.run("target goes otherwise", sim::target_goes_otherwise);
  return std::move(all).result();
}
