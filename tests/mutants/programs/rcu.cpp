// The grace period alone.

#include "mutants/driver.hpp"
#include "scheduled/rcu_scenes.hpp"

namespace espalier::mutants {

round_result explore_all(const round_options& options) {
  scenes all(options);
  all.run("a section is waited for", sim::section_is_waited_for);
  all.run("all sections are waited for", sim::all_sections_are_waited_for);
  all.run("two wait at once", sim::two_wait_at_once);
  return std::move(all).result();
}

}  // namespace espalier::mutants
