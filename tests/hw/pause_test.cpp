#include "espalier/hw/pause.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

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

}  // namespace
}  // namespace espalier::hw
