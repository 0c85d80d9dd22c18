// The guarantees of optimistic_lock.

#include "scheduled/optimistic_lock_scenes.hpp"

#include "mutants/driver.hpp"

namespace espalier::mutants {

round_result explore_all(const round_options& options) {
  scenes all(options);
  sim::optimistic::for_each_scene(
      [&](const char* name, void (*build)(sim::scene&)) { all.run(name, build); });
  return std::move(all).result();
}

}  // namespace espalier::mutants
