// A scene without an end, with any mutant.

#include "mutants/driver.hpp"
#include "tests/mutants/trials/turns.hpp"

namespace espalier::mutants {

void explore_all(scenes& all) {
  all.run("no end", [](sim::scene& s) {
    auto& taken = s.make<turns>();
    s.thread("a", [&taken] { taken.take(); });
    s.at_end([&taken] {
      while (taken.release_all() < 5) taken.take();
    });
  });
}

}  // namespace espalier::mutants
