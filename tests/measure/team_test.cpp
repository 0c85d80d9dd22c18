#include "espalier/measure/team.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <ctime>
#include <functional>
#include <stdexcept>
#include <thread>

// The clock of this program. It stands still unless a thread of a team moves it. The thread that made the team reads it only
// after a thread of the team has read it at the end of its work, as on a loaded machine that keeps the first one waiting.

namespace {

std::atomic<std::uint64_t> time_ns{1'000'000};
std::atomic<std::thread::id> held_up{};
std::atomic<bool> work_is_over{false};
std::atomic<bool> seen_after_work{false};

/// While it lives, the calling thread reads no clock before the team has ended.
struct hold_up {
  hold_up() { held_up = std::this_thread::get_id(); }
  hold_up(const hold_up&) = delete;
  hold_up& operator=(const hold_up&) = delete;
  ~hold_up() { held_up = std::thread::id(); }
};

}  // namespace

extern "C" int clock_gettime(clockid_t, timespec* now) noexcept {
  if (held_up.load() == std::this_thread::get_id()) {
    while (!seen_after_work) std::this_thread::yield();
  } else if (work_is_over) {
    seen_after_work = true;
  }
  const std::uint64_t ns = time_ns;
  now->tv_sec = static_cast<std::time_t>(ns / 1'000'000'000);
  now->tv_nsec = static_cast<long>(ns % 1'000'000'000);
  return 0;
}

namespace {

using espalier::measure::run_team;
using ready_call = std::function<void()>;

TEST(thread_team, time_counts_where_the_caller_is_held_up) {
  const hold_up here;
  const double ns = run_team(1, {}, [](unsigned, const ready_call& ready) {
    ready();
    time_ns += 250;
    work_is_over = true;
  });
  EXPECT_EQ(ns, 250);
}

TEST(thread_team, time_before_ready_does_not_count) {
  const double ns = run_team(3, {}, [](unsigned, const ready_call& ready) {
    time_ns += 1000;
    ready();
  });
  EXPECT_EQ(ns, 0);
}

TEST(thread_team, time_is_from_the_first_begin_to_the_last_end) {
  std::atomic<unsigned> turn{0};
  const double ns = run_team(4, {}, [&](unsigned index, const ready_call& ready) {
    ready();
    while (turn != index) std::this_thread::yield();
    time_ns += 10;
    ++turn;
  });
  EXPECT_EQ(ns, 40);
}

TEST(thread_team, without_ready_there_is_no_time) {
  EXPECT_EQ(run_team(2, {}, [](unsigned, const ready_call&) { time_ns += 5; }), 0);
}

TEST(thread_team, an_exception_of_a_thread_comes_back_when_all_have_ended) {
  std::atomic<unsigned> ended{0};
  const auto body = [&](unsigned index, const ready_call& ready) {
    if (index == 1) throw std::runtime_error("thread 1");
    ready();
    ++ended;
  };
  EXPECT_THROW(run_team(3, {}, body), std::runtime_error);
  EXPECT_EQ(ended, 2U);
}

TEST(thread_team, between_runs_beside_the_threads) {
  std::atomic<bool> stop{false};
  run_team(
      2, {},
      [&](unsigned, const ready_call& ready) {
        ready();
        while (!stop) std::this_thread::yield();
      },
      [&] { stop = true; });
  EXPECT_TRUE(stop);
}

}  // namespace
