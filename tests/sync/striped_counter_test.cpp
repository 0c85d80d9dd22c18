#include "espalier/sync/striped_counter.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "support/on_threads.hpp"

namespace espalier {
namespace {

TEST(striped_counter, adds_up_over_threads_that_run_and_threads_that_ended) {
  striped_counter sum;
  EXPECT_EQ(sum.read(), 0);
  for (int generation = 1; generation <= 3; ++generation) {
    test::on_threads(4, [&](int) {
      for (int i = 0; i < 1000; ++i) sum.add(3);
    });
    EXPECT_EQ(sum.read(), generation * 4 * 1000 * 3);
  }
}

TEST(striped_counter, a_thread_may_take_away_what_another_added) {
  striped_counter sum;
  sum.add(10);
  std::thread([&] {
    sum.add(-7);
    EXPECT_EQ(sum.read(), 3);
  }).join();
  sum.add(-4);
  EXPECT_EQ(sum.read(), -1);
}

TEST(striped_counter, counters_are_independent) {
  striped_counter a;
  striped_counter b;
  a.add(1);
  EXPECT_EQ(b.read(), 0);
  b.add(2);
  EXPECT_EQ(a.read(), 1);
}

}  // namespace
}  // namespace espalier
