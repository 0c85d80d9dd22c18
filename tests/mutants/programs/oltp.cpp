// The guarantees of the in-memory database.

#include "scheduled/oltp_scenes.hpp"

#include <string>

#include "mutants/driver.hpp"

namespace espalier::mutants {

void explore_all(scenes& all) {
  sim::transactional::for_each_scene([&](const std::string& name, void (*build)(sim::scene&)) {
    all.run(name, build, sim::transactional::long_runs());
  });
}

}  // namespace espalier::mutants
