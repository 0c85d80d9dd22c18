// Threads that sleep on words (hw/pause.hpp): no wake-up is lost, sleeps may end spuriously, and a thread that nothing
// wakes is reported.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>

#include "espalier/hw/pause.hpp"
#include "scheduled/expect.hpp"
#include "scheduled/scenes.hpp"

namespace espalier::sim {
namespace {

using word = std::atomic<std::uint32_t>;

ESPALIER_SCENE(waiting, a_wake_up_is_never_lost, 4000) {
  struct box {
    word full{0};
    int contents = 0;
  };
  auto& b = s.make<box>();
  s.thread("takes", [&b] {
    while (b.full.load(std::memory_order_acquire) == 0) hw::wait_on(b.full, 0);
    require(b.contents == 7, "what was stored before the wake-up is there");
  });
  s.thread("fills", [&b] {
    b.contents = 7;
    b.full.store(1, std::memory_order_release);
    hw::wake_one(b.full);
  });
}

ESPALIER_SCENE(waiting, two_threads_take_turns, 4000) {
  auto& turn = s.make<word>(0U);
  for (const std::uint32_t mine : {0U, 1U}) {
    s.thread(mine == 0 ? "even" : "odd", [&turn, mine] {
      for (int i = 0; i < 2; ++i) {
        for (std::uint32_t seen = turn.load(); seen % 2 != mine; seen = turn.load()) hw::wait_on(turn, seen);
        turn.store(turn.load() + 1);
        hw::wake_one(turn);
      }
    });
  }
  s.at_end([&turn] { require(turn == 4, "each had both of its turns"); });
}

ESPALIER_SCENE(waiting, one_or_all_sleepers_are_woken, 4000) {
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
}

/// The control: the word is stored after the wake-up, so the sleeper may never learn of it.
TEST(waiting, a_lost_wake_up_is_reported) {
  expect_broken(
      failure_kind::livelock, 4000,
      [](scene& s) {
        auto& gate = s.make<word>(0U);
        s.thread("sleeps", [&gate] {
          while (gate.load() == 0) hw::wait_on(gate, 0);
        });
        s.thread("opens", [&gate] {
          hw::wake_all(gate);
          gate.store(1);
        });
      },
      "all threads sleep");
}

/// The control: a thread that takes the return for the event believes a spurious one.
TEST(waiting, a_spurious_return_is_possible) {
  expect_broken(failure_kind::requirement, 4000, [](scene& s) {
    auto& gate = s.make<word>(0U);
    for (const char* name : {"a", "b", "c"}) {
      s.thread(name, [&gate] {
        if (gate.load() == 0) hw::wait_on(gate, 0);
        require(gate.load() != 0, "the return is the event");
      });
    }
    s.thread("opens", [&gate] {
      gate.store(1);
      hw::wake_all(gate);
    });
  });
}

}  // namespace
}  // namespace espalier::sim
