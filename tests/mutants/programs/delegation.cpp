// The guarantees of the delegation runtime.

#include "scheduled/delegation_scenes.hpp"

#include <string_view>

#include "mutants/driver.hpp"

namespace espalier::mutants {

void explore_all(scenes& all) {
  // The shortest first.
  sim::delegated::for_each_scene_alone(
      [&](const std::string_view name, void (*build)(sim::scene&)) { all.run_alone(name, build); });
  sim::delegated::for_each_scene_in_order(
      [&](const std::string_view name, void (*build)(sim::scene&)) { all.run(name, build, {}, .05); });
  sim::delegated::for_each_scene([&](const std::string_view name, void (*build)(sim::scene&)) {
    all.run(name, build, {}, name == "long operation" ? 10 : 1);
  });
}

}  // namespace espalier::mutants
