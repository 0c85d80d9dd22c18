// The guarantees of the delegation runtime.

#include "scheduled/delegation_scenes.hpp"

#include <string_view>

#include "mutants/driver.hpp"

namespace espalier::mutants {

void explore_all(scenes& all) {
  sim::delegated::for_each_scene([&](const std::string_view name, void (*build)(sim::scene&)) {
    all.run(name, build, {}, name == "long operation" ? 10 : 1);
  });
}

}  // namespace espalier::mutants
