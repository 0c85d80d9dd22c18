// A scene without an end, with any mutant.

#include "scheduled/scenes.hpp"
#include "tests/mutants/trials/turns.hpp"

namespace espalier::mutants {

ESPALIER_SCENE(trials, no_end, 100) {
  auto& taken = s.make<turns>();
  s.thread("a", [&taken] { taken.take(); });
  s.at_end([&taken] {
    while (taken.release_all() < 5) taken.take();
  });
}

}  // namespace espalier::mutants
