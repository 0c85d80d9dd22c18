#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <string>

#include "espalier/sync/per_thread.hpp"
#include "espalier/sync/striped_counter.hpp"
#include "scheduled/schedules.hpp"
#include "sim/explore.hpp"

namespace {

using namespace espalier;
using sim::scene;

sim::exploration_report explore(const char* name, const std::function<void(scene&)>& build) {
  sim::exploration_options o;
  o.schedules = sim::scaled_schedules(4000);
  return sim::explore(name, o, build);
}

TEST(striped_counter, sums_what_threads_add) {
  const auto report = explore("sums_what_threads_add", [](scene& s) {
    auto& counter = s.make<striped_counter>();
    for (const char* name : {"a", "b"}) {
      s.thread(name, [&counter] {
        for (int i = 0; i < 3; ++i) counter.add(2);
        counter.add(-1);
      });
    }
    s.thread("reads", [&counter] {
      const std::int64_t sum = counter.read();
      sim::require(sum >= 0 && sum <= 12, "a sum meanwhile is one of those there were");
    });
    s.at_end([&counter] { sim::require(counter.read() == 10, "nothing is lost"); });
  });
  EXPECT_TRUE(report.passed()) << report;
}

TEST(per_thread, each_has_its_own) {
  const auto report = explore("each_has_its_own", [](scene& s) {
    auto& all = s.make<per_thread<std::atomic<int>>>();
    for (int t = 1; t <= 3; ++t) {
      s.thread(std::string(1, static_cast<char>(96 + t)), [&all, t] {
        std::atomic<int>& mine = all.local();
        sim::require(mine.exchange(t) == 0, "an element is another thread's");
        sim::require(&all.local() == &mine, "an element stays where it is");
        int seen = 0;
        all.for_each([&](std::uint32_t, const std::atomic<int>& one) { seen += one.load() == t ? 1 : 0; });
        sim::require(seen == 1, "a thread's element is found once");
      });
    }
    s.at_end([&all] {
      int sum = 0;
      all.for_each([&](std::uint32_t, const std::atomic<int>& one) { sum += one.load(); });
      sim::require(sum == 6, "the elements of ended threads are found");
    });
  });
  EXPECT_TRUE(report.passed()) << report;
}

}  // namespace
