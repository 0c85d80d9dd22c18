// The grace period alone.

#include "mutants/driver.hpp"
#include "scheduled/rcu_scenes.hpp"

namespace espalier::mutants {

void explore_all(scenes& all) {
  all.run("a section is waited for", sim::section_is_waited_for);
  all.run("all sections are waited for", sim::all_sections_are_waited_for);
  all.run("two wait at once", sim::two_wait_at_once);
}

}  // namespace espalier::mutants
