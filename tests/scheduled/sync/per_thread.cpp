// Per-thread storage keeps its contents, and no addition to a striped counter is lost.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <utility>

#include "espalier/sync/per_thread.hpp"
#include "scheduled/scenes.hpp"

namespace espalier::sim {
namespace {

ESPALIER_SCENE(striped_counter, sums_what_threads_add, 4000) {
  auto& counter = s.make<striped_counter>();
  // One more, and threads have words of their own.
  for (unsigned i = 1; i < striped_counter::first_additions; ++i) counter.add(0);
  for (const char* name : {"a", "b"}) {
    s.thread(name, [&counter] {
      for (int i = 0; i < 3; ++i) counter.add(2);
      counter.add(-1);
    });
  }
  s.thread("reads", [&counter] {
    const std::int64_t sum = counter.read();
    require(sum >= 0 && sum <= 12, "a sum meanwhile is one of those there were");
  });
  s.at_end([&counter] { require(counter.read() == 10, "nothing is lost"); });
}

ESPALIER_SCENE(per_thread, each_has_its_own, 4000) {
  auto& all = s.make<per_thread<std::atomic<int>, 1>>();  // the table grows
  for (int t = 1; t <= 3; ++t) {
    s.thread(std::string(1, static_cast<char>(96 + t)), [&all, t] {
      std::atomic<int>& mine = all.local();
      require(mine.exchange(t) == 0, "an element is another thread's");
      require(&all.local() == &mine, "an element stays where it is");
      int seen = 0;
      all.for_each([&](std::uint32_t, const std::atomic<int>& one) { seen += one.load() == t ? 1 : 0; });
      require(seen == 1, "a thread's element is found once");
    });
  }
  s.at_end([&all] {
    int sum = 0;
    all.for_each([&](std::uint32_t, const std::atomic<int>& one) { sum += one.load(); });
    require(sum == 6, "the elements of ended threads are found");
  });
}

bool no_memory = false;

/// Sums to which threads without memory have added are exchanged.
ESPALIER_SCENE(striped_counter, swaps_what_threads_add_without_memory, alone()) {
  auto& counters = s.make<std::pair<striped_counter, striped_counter>>();
  s.thread("a", [&counters] {
    auto& [one, other] = counters;
    for (unsigned i = 0; i < striped_counter::first_additions; ++i) {
      one.add(0);
      other.add(0);
    }
    no_memory = true;
    one.add(1);
    other.add(2);
    no_memory = false;
    other.add(4);
    one.swap(other);
    require(one.read() == 6 && other.read() == 1, "a swap leaves a part of a sum");
  });
}

}  // namespace
}  // namespace espalier::sim

/// Replaces the simulator's.
void* operator new(std::size_t bytes, std::align_val_t align, const std::nothrow_t&) noexcept {
  return espalier::sim::no_memory ? nullptr : operator new(bytes, align);
}
