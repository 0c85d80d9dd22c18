// Each of two threads takes a turn.

#include "mutants/driver.hpp"
#include "tests/mutants/trials/turns.hpp"

namespace espalier::mutants {

void explore_all(scenes& all) {
  all.run("two turns", [](sim::scene& s) {
    auto& both = s.make<turns>();
    for (const char* name : {"a", "b"}) {
      s.thread(name, [&both] {
        both.take();
        both.wait_for(1);
      });
    }
    s.at_end([&both] { sim::require(both.release_all() == 2, "a turn is lost"); });
  });
}

}  // namespace espalier::mutants
