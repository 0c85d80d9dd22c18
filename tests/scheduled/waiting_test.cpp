// Threads that sleep on words (hw/pause.hpp): no wake-up is lost, sleeps may end spuriously, and a thread that nothing
// wakes is reported.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <string_view>

#include "espalier/hw/pause.hpp"
#include "scheduled/schedules.hpp"
#include "sim/explore.hpp"

namespace {

using namespace espalier;

using word = std::atomic<std::uint32_t>;

sim::exploration_report explore(std::string_view name, const std::function<void(sim::scene&)>& build) {
  sim::exploration_options o;
  o.schedules = sim::scaled_schedules(4000);
  return sim::explore(name, o, build);
}

TEST(waiting, a_wake_up_is_never_lost) {
  const auto report = explore("a_wake_up_is_never_lost", [](sim::scene& s) {
    struct box {
      word full{0};
      int contents = 0;
    };
    auto& b = s.make<box>();
    s.thread("takes", [&b] {
      while (b.full.load(std::memory_order_acquire) == 0) hw::wait_on(b.full, 0);
      sim::require(b.contents == 7, "what was stored before the wake-up is there");
    });
    s.thread("fills", [&b] {
      b.contents = 7;
      b.full.store(1, std::memory_order_release);
      hw::wake_one(b.full);
    });
  });
  EXPECT_TRUE(report.passed()) << report;
}

TEST(waiting, two_threads_take_turns) {
  const auto report = explore("two_threads_take_turns", [](sim::scene& s) {
    auto& turn = s.make<word>(0U);
    for (const std::uint32_t mine : {0U, 1U}) {
      s.thread(mine == 0 ? "even" : "odd", [&turn, mine] {
        for (int i = 0; i < 2; ++i) {
          for (std::uint32_t seen = turn.load(); seen % 2 != mine; seen = turn.load())
            hw::wait_on(turn, seen);
          turn.store(turn.load() + 1);
          hw::wake_one(turn);
        }
      });
    }
    s.at_end([&turn] { sim::require(turn == 4, "each had both of its turns"); });
  });
  EXPECT_TRUE(report.passed()) << report;
}

TEST(waiting, one_or_all_sleepers_are_woken) {
  const auto report = explore("one_or_all_sleepers_are_woken", [](sim::scene& s) {
    auto& gate = s.make<word>(0U);
    for (const char* name : {"a", "b", "c"}) {
      s.thread(name, [&gate] {
        while (gate.load() == 0) hw::wait_on(gate, 0);
        hw::wake_one(gate);  // each thread that passes wakes one more sleeper
      });
    }
    s.thread("opens", [&gate] {
      gate.store(1);
      hw::wake_one(gate);
      hw::wake_all(gate);
    });
  });
  EXPECT_TRUE(report.passed()) << report;
}

/// The control: the word is stored after the wake-up, so the sleeper may never learn of it.
TEST(waiting, a_lost_wake_up_is_reported) {
  const auto report = explore("a_lost_wake_up", [](sim::scene& s) {
    auto& gate = s.make<word>(0U);
    s.thread("sleeps", [&gate] {
      while (gate.load() == 0) hw::wait_on(gate, 0);
    });
    s.thread("opens", [&gate] {
      hw::wake_all(gate);
      gate.store(1);
    });
  });
  ASSERT_FALSE(report.passed());
  EXPECT_EQ(report.failure->kind, sim::failure_kind::livelock) << report;
  EXPECT_NE(report.failure->text.find("all threads sleep"), std::string::npos) << report;
}

/// The control: a thread that takes the return for the event believes a spurious one.
TEST(waiting, a_spurious_return_is_possible) {
  const auto report = explore("a_spurious_return", [](sim::scene& s) {
    auto& gate = s.make<word>(0U);
    for (const char* name : {"a", "b", "c"}) {
      s.thread(name, [&gate] {
        if (gate.load() == 0) hw::wait_on(gate, 0);
        sim::require(gate.load() != 0, "the return is the event");
      });
    }
    s.thread("opens", [&gate] {
      gate.store(1);
      hw::wake_all(gate);
    });
  });
  ASSERT_FALSE(report.passed());
  EXPECT_EQ(report.failure->kind, sim::failure_kind::requirement) << report;
}

}  // namespace
