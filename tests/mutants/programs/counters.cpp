// Per-thread storage keeps its contents, and no addition to a striped counter is lost.

#include "mutants/driver.hpp"
#include "scheduled/per_thread_scenes.hpp"

namespace espalier::mutants {

void explore_all(scenes& all) {
  all.run("striped_counter adds", sim::additions_are_counted);
  all.run("per_thread keeps", sim::elements_are_kept_apart);
}

}  // namespace espalier::mutants
