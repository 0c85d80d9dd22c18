// Each of two threads takes a turn.

#include "scheduled/scenes.hpp"
#include "tests/mutants/trials/turns.hpp"

namespace espalier::mutants {

ESPALIER_SCENE(trials, two_turns, 100) {
  auto& both = s.make<turns>();
  for (const char* name : {"a", "b"}) {
    s.thread(name, [&both] {
      both.take();
      both.wait_for(1);
    });
  }
  s.at_end([&both] { sim::require(both.release_all() == 2, "a turn is lost"); });
}

}  // namespace espalier::mutants
