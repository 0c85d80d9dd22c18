#include "espalier/hw/counters.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <chrono>
#include <set>
#include <string>
#include <thread>

#include "espalier/hw/clock.hpp"
#include "espalier/hw/pages.hpp"

namespace espalier::hw {
namespace {

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
  counters.start();
  do_countable_work();
  counters.stop();
  expect_kernel_counts(counters.read());
}

TEST(counters, stopped_counts_stand_still_and_start_begins_anew) {
  counter_set counters;
  counters.start();
  do_countable_work();
  counters.stop();
  const auto counts = counters.read();
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
  counters.start();
  do_countable_work();
  counters.stop();
  const auto counts = counters.read();
  expect_kernel_counts(counts);
  for (const counter which : {counter::cycles, counter::instructions, counter::llc_misses,
                              counter::dtlb_misses, counter::branch_misses, counter::cpu_migrations}) {
    EXPECT_EQ(to_text(counts[which]), "unavailable") << to_text(which);
  }
}

TEST(counters, hardware_events_are_numbers_or_absent) {
  counter_set counters;
  counters.start();
  do_countable_work();
  counters.stop();
  const auto counts = counters.read();
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
