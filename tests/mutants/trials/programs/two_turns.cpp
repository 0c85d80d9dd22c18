// Each of two threads takes a turn.

#include "mutants/driver.hpp"
#include "tests/mutants/trials/turns.hpp"

namespace espalier::mutants {

round_result explore_all(const round_options& options) {
  scenes all(options);
  all.run("two turns", [](sim::scene& s) {
    auto& both = s.make<turns>();
    for (const char* name : {"a", "b"}) {
      s.thread(name, [&both] {
        both.take();
        both.wait_for(1);
      });
    }
    s.at_end([&both] { sim::require(both.give_back() == 2, "a turn is lost"); });
  });
  return std::move(all).result();
}

}  // namespace espalier::mutants
