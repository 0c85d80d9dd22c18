#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "espalier/sync/per_thread.hpp"
#include "sim/explore.hpp"

// What per-thread storage, and the counter that it makes, must guarantee, as scenes for explore().

namespace espalier::sim {

inline void additions_are_counted(scene& s) {
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

inline void elements_are_kept_apart(scene& s) {
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

}  // namespace espalier::sim
