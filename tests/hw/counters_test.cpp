// Clocks and counters.

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <chrono>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>

#include "espalier/hw/clock.hpp"
#include "espalier/hw/counters.hpp"
#include "espalier/hw/pages.hpp"

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

constexpr std::size_t touched_pages = 256;
constexpr int sleeps = 5;

/// Faults on at least `touched_pages` pages, gives the CPU up at least `sleeps` times and burns a
/// millisecond.
void do_countable_work() {
  const auto run = map_pages(touched_pages * page_size());
  // Huge pages would fault once for many.
  madvise(run.data(), run.size(), MADV_NOHUGEPAGE);
  for (std::size_t i = 0; i < touched_pages; ++i) {
    *static_cast<volatile std::byte*>(run.data() + i * page_size()) = std::byte{1};
  }
  for (int i = 0; i < sleeps; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const auto start = thread_cpu_ns();
  while (thread_cpu_ns() - start < 1'000'000) {
  }
}

counter_values counted_work(counter_set& counters) {
  counters.start();
  do_countable_work();
  counters.stop();
  return counters.read();
}

void expect_kernel_counts(const counter_values& counts) {
  EXPECT_GE(counts[counter::page_faults].value_or(0), touched_pages);
  EXPECT_GE(counts[counter::context_switches].value_or(0), static_cast<std::uint64_t>(sleeps));
  EXPECT_GE(counts[counter::task_clock].value_or(0), 1'000'000U);
}

/// While one lives, no descriptor can be opened, so that perf refuses as it does in a locked container.
class no_descriptors {
 public:
  no_descriptors() {
    getrlimit(RLIMIT_NOFILE, &former_);
    const rlimit none{0, former_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
  }
  ~no_descriptors() { setrlimit(RLIMIT_NOFILE, &former_); }
  no_descriptors(const no_descriptors&) = delete;
  no_descriptors& operator=(const no_descriptors&) = delete;

 private:
  rlimit former_{};
};

TEST(counters, absent_value_is_the_word_unavailable) {
  EXPECT_EQ(to_text(std::nullopt), "unavailable");
  EXPECT_EQ(to_text(std::optional<std::uint64_t>{0}), "0");
  EXPECT_EQ(to_text(std::optional<std::uint64_t>{18446744073709551615U}), "18446744073709551615");
}

TEST(counters, names_are_distinct) {
  std::set<std::string_view> names;
  for (const counter which : all_counters) names.insert(to_text(which));
  EXPECT_EQ(names.size(), all_counters.size());
  EXPECT_TRUE(names.contains("llc_misses"));
  EXPECT_TRUE(names.contains("task_clock"));
}

TEST(counters, counts_of_shared_counters_are_scaled) {
  EXPECT_EQ(scaled_count(100, 1000, 0), std::nullopt);
  EXPECT_EQ(scaled_count(100, 1000, 1000), 100U);
  EXPECT_EQ(scaled_count(100, 1000, 250), 400U);
  EXPECT_EQ(scaled_count(0, 1000, 250), 0U);
  EXPECT_EQ(scaled_count(std::uint64_t{1} << 60, 10, 10), std::uint64_t{1} << 60);
}

TEST(counters, nothing_is_known_before_the_first_start) {
  counter_set counters;
  counters.stop();
  const auto counts = counters.read();
  for (const counter which : all_counters) EXPECT_EQ(counts[which], std::nullopt);
}

TEST(counters, kernel_events_are_counted) {
  counter_set counters;
  expect_kernel_counts(counted_work(counters));
}

TEST(counters, stopped_counts_stand_still_and_start_begins_anew) {
  counter_set counters;
  const auto counts = counted_work(counters);
  do_countable_work();
  const auto later = counters.read();
  for (const counter which : all_counters) EXPECT_EQ(to_text(counts[which]), to_text(later[which]));

  counters.start();
  counters.stop();
  EXPECT_LT(counters.read()[counter::page_faults].value_or(touched_pages), touched_pages);
}

TEST(counters, running_counts_grow) {
  counter_set counters;
  counters.start();
  const auto before = counters.read();
  do_countable_work();
  const auto after = counters.read();
  EXPECT_GE(after[counter::page_faults].value_or(0),
            before[counter::page_faults].value_or(touched_pages) + touched_pages);
}

TEST(counters, another_threads_events_are_not_counted) {
  counter_set counters;
  // ThreadSanitizer has the thread that starts another fault some hundred times.
  constexpr int times = 8;
  constexpr std::size_t too_many = times * touched_pages / 2;
  counters.start();
  std::thread([] {
    for (int i = 0; i < times; ++i) do_countable_work();
  }).join();
  counters.stop();
  EXPECT_LT(counters.read()[counter::page_faults].value_or(too_many), too_many);
}

TEST(counters, without_perf_the_kernels_accounting_serves) {
  const no_descriptors refused;
  counter_set counters;
  const auto counts = counted_work(counters);
  expect_kernel_counts(counts);
  for (const counter which : {counter::cycles, counter::instructions, counter::llc_misses,
                              counter::dtlb_misses, counter::branch_misses, counter::cpu_migrations}) {
    EXPECT_EQ(to_text(counts[which]), "unavailable") << to_text(which);
  }
}

TEST(counters, hardware_events_are_numbers_or_absent) {
  counter_set counters;
  const auto counts = counted_work(counters);
  if (hardware_counters_available()) {
    EXPECT_GT(counts[counter::cycles].value_or(0), 0U);
  } else {
    EXPECT_EQ(counts[counter::cycles].value_or(0), 0U);
  }
  // The spin alone executes thousands.
  EXPECT_GT(counts[counter::instructions].value_or(1001), 1000U);
  EXPECT_GE(counts[counter::instructions].value_or(~std::uint64_t{0}),
            counts[counter::branch_misses].value_or(0));
}

TEST(counters, many_sets_leak_no_descriptor) {
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit few{64, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  counter_set first;
  first.start();
  const bool migrations_at_first = first.read()[counter::cpu_migrations].has_value();
  for (int i = 0; i < 100; ++i) const counter_set passing;
  counter_set last;
  last.start();
  EXPECT_EQ(last.read()[counter::cpu_migrations].has_value(), migrations_at_first);
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace
}  // namespace espalier::hw
