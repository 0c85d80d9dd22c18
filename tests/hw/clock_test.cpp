#include "espalier/hw/clock.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string_view>
#include <thread>
#include <type_traits>

namespace espalier::hw {
namespace {

TEST(clock, tick_counter_never_runs_backwards) {
  auto last = tsc_end();
  for (int i = 0; i < 10'000; ++i) {
    const auto next = tsc_end();
    ASSERT_GE(next, last);
    last = next;
  }
}

TEST(clock, interval_has_positive_length) {
  const auto start = tsc_now();
  const auto before = wall_ns();
  while (wall_ns() - before < 100'000) {
  }
  const auto ticks = tsc_end() - start;
  EXPECT_GT(ticks, 0U);
  // Only the lower bound is certain on a shared machine.
  EXPECT_GE(tsc_to_ns(ticks), 95'000.0);
}

TEST(clock, rate_is_sane_and_stays) {
  const double hertz = tsc_hertz();
  EXPECT_GE(hertz, 1e6);
  EXPECT_LE(hertz, 1e10);
  EXPECT_EQ(tsc_hertz(), hertz);
  EXPECT_DOUBLE_EQ(tsc_to_ns(static_cast<std::uint64_t>(hertz)) / 1e9,
                   static_cast<double>(static_cast<std::uint64_t>(hertz)) / hertz);
  EXPECT_EQ(tsc_to_ns(0), 0.0);
}

TEST(clock, agrees_with_the_wall_clock_over_an_interval) {
  tsc_hertz();
  // The wall interval encloses the ticks in the first comparison and is enclosed in the second.
  const auto wall_outer = wall_ns();
  const auto first = tsc_end();
  const auto wall_inner = wall_ns();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const auto wall_inner_length = static_cast<double>(wall_ns() - wall_inner);
  const auto length = tsc_to_ns(tsc_end() - first);
  const auto wall_outer_length = static_cast<double>(wall_ns() - wall_outer);
  EXPECT_GE(length, wall_inner_length * 0.99);
  EXPECT_LE(length, wall_outer_length * 1.01);
}

TEST(clock, source_is_one_of_the_documented) {
  const std::set<std::string_view> known{"cpuid leaf 0x15",
                                         "cpuid leaf 0x16",
                                         "hypervisor leaf 0x40000010",
                                         "measured against CLOCK_MONOTONIC_RAW",
                                         "cntfrq_el0",
                                         "steady_clock"};
  EXPECT_TRUE(known.contains(tsc_source())) << tsc_source();
}

TEST(clock, thread_cpu_time_grows_with_work_and_not_with_sleep) {
  const auto before_work = thread_cpu_ns();
  while (thread_cpu_ns() - before_work < 1'000'000) {
  }
  const auto before_sleep = thread_cpu_ns();
  const auto wall_before_sleep = wall_ns();
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_GE(wall_ns() - wall_before_sleep, 30'000'000U);
  EXPECT_LT(thread_cpu_ns() - before_sleep, 30'000'000U);
}

TEST(clock, thread_cpu_time_is_of_the_calling_thread) {
  const auto before = thread_cpu_ns();
  while (thread_cpu_ns() - before < 5'000'000) {
  }
  std::uint64_t fresh = 0;
  std::thread([&] { fresh = thread_cpu_ns(); }).join();
  EXPECT_LT(fresh, thread_cpu_ns());
}

}  // namespace
}  // namespace espalier::hw
