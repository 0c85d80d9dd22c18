// The guarantees of the cache.

#include "scheduled/cache_scenes.hpp"

#include "mutants/driver.hpp"

namespace espalier::mutants {

void explore_all(scenes& all) {
  sim::exploration_options o;
  o.step_budget = 400'000;
  const auto run = [&](const char* name, void (*build)(sim::scene&)) { all.run(name, build, o); };
  sim::cached::for_each_scene(run);
  sim::exploration_options weak;
  weak.model = sim::memory_model::weak;
  sim::cached::for_each_weak_scene(
      [&](const char* name, void (*build)(sim::scene&)) { all.run(name, build, weak, 8); });
  sim::cached::for_each_long_scene(run);
  sim::cached::for_each_lone_scene(
      [&](const char* name, void (*build)(sim::scene&)) { all.run_alone(name, build); });
}

}  // namespace espalier::mutants
