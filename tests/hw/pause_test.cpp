#include "espalier/hw/pause.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <thread>

#include "support/on_threads.hpp"

namespace espalier::hw {
namespace {

static_assert(noexcept(cpu_relax()) && noexcept(park()));

/// Waits for another thread in the given way; true when its word arrived.
template <class Wait>
bool gets_word_from_another_thread(Wait&& wait) {
  std::atomic<bool> word{false};
  std::thread other([&] { word.store(true); });
  while (!word.load()) wait();
  other.join();
  return word.load();
}

TEST(pause, loops_around_either_make_progress) {
  EXPECT_TRUE(gets_word_from_another_thread([] { cpu_relax(); }));
  EXPECT_TRUE(gets_word_from_another_thread([] { park(); }));
}

TEST(pause, no_thread_sleeps_on_a_word_that_has_changed) {
  const std::atomic<std::uint32_t> word{1};
  errno = EDOM;
  wait_on(word, 0);
  wake_one(word);
  wake_all(word);
  EXPECT_EQ(errno, EDOM) << "the caller's errno stays";
}

TEST(pause, a_wake_up_is_never_lost) {
  // Two threads pass a turn to and fro; each sleeps whenever it is not its turn.
  std::atomic<std::uint32_t> turn{0};
  constexpr std::uint32_t rounds = 2000;
  test::on_threads(2, [&](int t) {
    const auto mine = static_cast<std::uint32_t>(t);
    for (std::uint32_t i = 0; i < rounds; ++i) {
      for (std::uint32_t seen = turn.load(); seen % 2 != mine; seen = turn.load()) wait_on(turn, seen);
      turn.fetch_add(1);
      wake_one(turn);
    }
  });
  EXPECT_EQ(turn.load(), 2 * rounds);
}

TEST(pause, all_sleepers_are_woken) {
  std::atomic<std::uint32_t> gate{0};
  std::atomic<int> through{0};
  test::on_threads(5, [&](int t) {
    if (t == 0) {
      for (int i = 0; i < 10; ++i) park();
      gate.store(1);
      wake_all(gate);
    } else {
      while (gate.load() == 0) wait_on(gate, 0);
      ++through;
    }
  });
  EXPECT_EQ(through.load(), 4);
}

}  // namespace
}  // namespace espalier::hw
