// Per-thread storage keeps its contents, and no addition to a striped counter is lost.

#include "espalier/sync/per_thread.hpp"
#include "mutants/driver.hpp"

namespace espalier::mutants {
namespace {

void adds(sim::scene& s) {
  auto& counter = s.make<striped_counter>();
  for (const char* name : {"a", "b", "c"}) {
    s.thread(name, [&] {
      counter.add(1);
      counter.add(2);
    });
  }
  s.at_end([&] { sim::require(counter.read() == 9, "an addition is lost"); });
}

void keeps(sim::scene& s) {
  auto& elements = s.make<per_thread<std::atomic<int>>>();
  for (const char* name : {"a", "b"}) {
    s.thread(name, [&] {
      std::atomic<int>& mine = elements.local();
      mine.store(1);
      sim::require(&elements.local() == &mine, "a thread's element moves");
      mine.store(mine.load() + 1);
    });
  }
  s.at_end([&] {
    int sum = 0;
    elements.for_each([&](std::uint32_t, const std::atomic<int>& element) { sum += element.load(); });
    sim::require(sum == 4, "an element is not found again");
  });
}

}  // namespace

void explore_all(scenes& all) {
  all.run("striped_counter adds", adds);
  all.run("per_thread keeps", keeps);
}

}  // namespace espalier::mutants
