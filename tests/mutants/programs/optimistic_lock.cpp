// The guarantees of optimistic_lock.

#include "scheduled/optimistic_lock_scenes.hpp"

#include "mutants/driver.hpp"

namespace espalier::mutants {

void explore_all(scenes& all) {
  sim::optimistic::for_each_scene(
      [&](const char* name, void (*build)(sim::scene&)) { all.run(name, build); });
}

}  // namespace espalier::mutants
