// A scene without an end, with any mutant.

#include "mutants/driver.hpp"
#include "tests/mutants/trials/turns.hpp"

namespace espalier::mutants {

round_result explore_all(const round_options& options) {
  scenes all(options);
  all.run("no end", [](sim::scene& s) {
    auto& taken = s.make<turns>();
    s.thread("a", [&taken] { taken.take(); });
    s.at_end([&taken] {
      while (taken.give_back() < 5) taken.take();
    });
  });
  return std::move(all).result();
}

}  // namespace espalier::mutants
