// Clocks and counters, and what the kernel says of pages, of the process and of its host.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <limits>
#include <new>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "espalier/hw/clock.hpp"
#include "espalier/hw/counters.hpp"
#include "espalier/hw/pages.hpp"
#include "espalier/hw/process.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"

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

/// Faults on at least `touched_pages` pages, gives the CPU up at least `sleeps` times and burns a millisecond.
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

/// A folder that stands for "/", filled file by file.
class process_root : public ::testing::Test, protected test::temporary_folder {
 protected:
  static constexpr std::uint64_t kib = 1024;
};

TEST_F(process_root, model_is_the_first_name) {
  put("proc/cpuinfo", "processor\t: 0\nmodel\t\t: 2\nmodel name\t: Some CPU: fast\n\nmodel name\t: Other\n");
  EXPECT_EQ(cpu_model(path()), "Some CPU: fast");
}

TEST_F(process_root, arm_model_is_composed) {
  put("proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n");
  EXPECT_EQ(cpu_model(path()), "ARM implementer 0x41 part 0xd0c");
}

TEST_F(process_root, absent_files_are_absent_facts) {
  EXPECT_EQ(cpu_model(path()), std::nullopt);
  EXPECT_EQ(available_memory_bytes(path()), std::nullopt);
  EXPECT_EQ(cpu_scaling_enabled(path()), std::nullopt);
}

TEST_F(process_root, memory_without_cgroups_is_the_machines) {
  put("proc/meminfo", "MemTotal:       2000 kB\nMemFree:         500 kB\nMemAvailable:   1000 kB\n");
  EXPECT_EQ(available_memory_bytes(path()), 1000 * kib);
}

TEST_F(process_root, memory_is_limited_by_cgroup_v2_and_its_ancestors) {
  put("proc/meminfo", "MemAvailable:   1000000 kB\n");
  put("proc/self/cgroup", "0::/a/b\n");
  put("sys/fs/cgroup/a/b/memory.max", "max\n");
  put("sys/fs/cgroup/a/b/memory.current", "100\n");
  EXPECT_EQ(available_memory_bytes(path()), 1000000 * kib);
  put("sys/fs/cgroup/a/memory.max", "500000\n");
  put("sys/fs/cgroup/a/memory.current", "200000\n");
  EXPECT_EQ(available_memory_bytes(path()), 300000U);
  put("sys/fs/cgroup/a/memory.stat", "anon 7\nactive_file 9\ninactive_file 50000\n");
  EXPECT_EQ(available_memory_bytes(path()), 350000U);
  put("sys/fs/cgroup/a/b/memory.max", "50\n");
  EXPECT_EQ(available_memory_bytes(path()), 0U) << "more is used than the limit allows";
}

TEST_F(process_root, memory_is_limited_by_cgroup_v1) {
  put("proc/meminfo", "MemAvailable:   1000 kB\n");
  put("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:hugetlb,memory:/host/path\n0::/\n");
  // In a container the host's path is not mounted; the mount's root is the container's group.
  put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9000\n");
  put("sys/fs/cgroup/memory/memory.usage_in_bytes", "2000\n");
  put("sys/fs/cgroup/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 500\n");
  EXPECT_EQ(available_memory_bytes(path()), 7500U);
  put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(available_memory_bytes(path()), 1000 * kib);
}

TEST_F(process_root, memory_from_malformed_files_is_absent_or_the_machines) {
  put("proc/meminfo", "MemTotal:       2000 kB\nMemFree:         500 kB\n");
  EXPECT_EQ(available_memory_bytes(path()), std::nullopt) << "free pages alone say little";
  for (const char* const value : {"", "kB", "-1 kB", "12x kB", "99999999999999999999 kB"}) {
    put("proc/meminfo", std::string("MemAvailable: ") + value + "\n");
    EXPECT_EQ(available_memory_bytes(path()), std::nullopt) << value;
  }
  put("proc/meminfo", "MemAvailable:   1000 kB\n");
  put("proc/self/cgroup", "0::/a\nno colon\n1:memory\n");
  put("sys/fs/cgroup/a/memory.current", "100\n");
  for (const char* const limit : {"", "\n", "-5\n", "12 bytes\n"}) {
    put("sys/fs/cgroup/a/memory.max", limit);
    EXPECT_EQ(available_memory_bytes(path()), 1000 * kib) << limit;
  }
  put("sys/fs/cgroup/a/memory.max", "500\n");
  put("sys/fs/cgroup/a/memory.stat", "inactive_file\ninactive_file_other 40\ninactive_file many\n");
  EXPECT_EQ(available_memory_bytes(path()), 400U);
  put("sys/fs/cgroup/a/memory.current", "none\n");
  EXPECT_EQ(available_memory_bytes(path()), 1000 * kib);
}

TEST_F(process_root, memory_of_a_group_outside_of_the_mount_is_that_of_the_mounts_root) {
  put("proc/meminfo", "MemAvailable:   1000 kB\n");
  put("proc/self/cgroup", "0::/../neighbour\n");
  put("sys/fs/neighbour/memory.max", "10\n");
  put("sys/fs/neighbour/memory.current", "1\n");
  put("sys/fs/cgroup/memory.max", "5000\n");
  put("sys/fs/cgroup/memory.current", "1000\n");
  EXPECT_EQ(available_memory_bytes(path()), 4000U);
}

TEST_F(process_root, one_scaling_cpu_is_enough) {
  put("sys/devices/system/cpu/online", "0-1\n");
  EXPECT_EQ(cpu_scaling_enabled(path()), std::nullopt);
  put("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n");
  EXPECT_EQ(cpu_scaling_enabled(path()), false);
  put("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "schedutil\n");
  EXPECT_EQ(cpu_scaling_enabled(path()), true);
}

TEST(process, resident_bytes_follow_the_pages) {
  const auto before = resident_bytes().value_or(0);
  ASSERT_GT(before, 0U);
  constexpr std::size_t bytes = std::size_t{64} << 20;
  const auto run = map_pages(bytes, {.prefault = true});
  const auto after = resident_bytes().value_or(0);
  // The kernel may lag by a few pages for each CPU.
  EXPECT_GE(after, before + bytes / 2);
  EXPECT_LE(after, before + bytes * 2);
}

TEST(process, waiting_counts_as_voluntary_switch) {
  const auto before = context_switches().value_or(context_switch_counts{});
  for (int i = 0; i < 5; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const auto after = context_switches().value_or(context_switch_counts{});
  EXPECT_GE(after.voluntary, before.voluntary + 5);
  EXPECT_GE(after.involuntary, before.involuntary);
}

TEST(process, host_facts_are_sane) {
  for (const double mean : load_average().value_or(std::array{-1.0, -1.0, -1.0})) {
    EXPECT_GE(mean, 0.0);
    EXPECT_LT(mean, 1e6);
  }
  EXPECT_FALSE(host_name().value_or("").empty());
  const auto available = available_memory_bytes().value_or(0);
  EXPECT_GT(available, std::uint64_t{1} << 20);
  EXPECT_LT(available, static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * page_size());
#if defined(__x86_64__)
  EXPECT_FALSE(cpu_model().value_or("").empty());
#endif
}

/// One entry a page, true where memory stands behind it; empty where any part is not mapped.
std::vector<bool> residency(std::byte* data, std::size_t size) {
  std::vector<unsigned char> flags(size / page_size());
  if (mincore(data, size, flags.data()) != 0) {
    EXPECT_EQ(errno, ENOMEM);
    return {};
  }
  std::vector<bool> resident(flags.size());
  std::transform(flags.begin(), flags.end(), resident.begin(),
                 [](unsigned char flag) { return (flag & 1U) != 0; });
  return resident;
}

bool is_mapped(std::byte* data, std::size_t size) { return !residency(data, size).empty(); }

bool is_aligned(const std::byte* data, std::size_t alignment) {
  return std::bit_cast<std::uintptr_t>(data) % alignment == 0;
}

bool is_zero(const page_run& run) {
  return std::all_of(run.data(), run.data() + run.size(), [](std::byte b) { return b == std::byte{0}; });
}

TEST(pages, zeroed_writable_and_rounded_up) {
  const auto run = map_pages(3 * page_size() + 1);
  EXPECT_EQ(run.size(), 4 * page_size());
  EXPECT_TRUE(is_aligned(run.data(), page_size()));
  EXPECT_TRUE(is_zero(run));
  std::fill(run.data(), run.data() + run.size(), std::byte{0xa5});
  EXPECT_EQ(run.data()[run.size() - 1], std::byte{0xa5});
  EXPECT_FALSE(run.is_huge_advised());
  EXPECT_EQ(run.bound_numa_node(), std::nullopt);
  EXPECT_EQ(map_pages(page_size()).size(), page_size());
}

TEST(pages, destructor_unmaps) {
  std::byte* data = nullptr;
  std::size_t size = 0;
  {
    const auto run = map_pages(64 * page_size());
    data = run.data();
    size = run.size();
    EXPECT_TRUE(is_mapped(data, size));
  }
  for (std::size_t offset = 0; offset < size; offset += page_size()) {
    EXPECT_FALSE(is_mapped(data + offset, page_size()));
  }
}

TEST(pages, move_hands_the_mapping_over) {
  auto first = map_pages(page_size());
  std::byte* data = first.data();
  page_run second(std::move(first));
  EXPECT_EQ(second.data(), data);
  EXPECT_EQ(first.data(), nullptr);  // NOLINT(bugprone-use-after-move): the empty state is documented
  EXPECT_EQ(first.size(), 0U);

  auto third = map_pages(2 * page_size());
  std::byte* replaced = third.data();
  third = std::move(second);
  EXPECT_EQ(third.data(), data);
  EXPECT_EQ(third.size(), page_size());
  EXPECT_FALSE(is_mapped(replaced, 2 * page_size()));

  auto& same = third;
  third = std::move(same);
  EXPECT_EQ(third.data(), data);
  EXPECT_TRUE(is_mapped(data, page_size()));
}

TEST(pages, prefault_backs_every_page) {
  const auto run = map_pages(100 * page_size(), {.prefault = true});
  const auto resident = residency(run.data(), run.size());
  ASSERT_EQ(resident.size(), 100U);
  EXPECT_EQ(std::ranges::count(resident, true), 100);
  EXPECT_TRUE(is_zero(run));
}

TEST(pages, without_prefault_pages_wait_for_a_touch) {
  const auto run = map_pages(100 * page_size());
  EXPECT_EQ(std::ranges::count(residency(run.data(), run.size()), true), 0);
}

TEST(pages, huge_runs_are_aligned_and_whole) {
  ASSERT_TRUE(std::has_single_bit(huge_page_size()));
  // A fresh mapping may be aligned by luck; several in a row are not.
  std::vector<page_run> runs;
  for (int i = 0; i < 5; ++i) {
    const std::size_t wanted = huge_page_size() + static_cast<std::size_t>(i % 2);
    runs.push_back(map_pages(wanted, {.huge = true}));
    const auto& run = runs.back();
    EXPECT_TRUE(is_aligned(run.data(), huge_page_size()));
    EXPECT_EQ(run.size(), huge_page_size() * (i % 2 == 0 ? 1 : 2));
    EXPECT_TRUE(is_mapped(run.data(), run.size()));
    run.data()[run.size() - 1] = std::byte{1};
    const auto mode = transparent_huge_pages();
    EXPECT_EQ(run.is_huge_advised(), mode == "always" || mode == "madvise");
  }
  std::byte* data = runs.front().data();
  const std::size_t size = runs.front().size();
  runs.clear();
  EXPECT_FALSE(is_mapped(data, size));
}

TEST(pages, bound_pages_carry_the_policy) {
  const auto run = map_pages(4 * page_size(), {.numa_node = 0, .prefault = true});
  EXPECT_TRUE(is_zero(run));
  if (!run.bound_numa_node()) GTEST_SKIP() << "this system forbids binding";
  EXPECT_EQ(run.bound_numa_node(), 0U);
  int mode = -1;
  std::vector<unsigned long> nodes(64);
  ASSERT_EQ(syscall(SYS_get_mempolicy, &mode, nodes.data(), nodes.size() * 64, run.data(), MPOL_F_ADDR), 0);
  EXPECT_EQ(mode, MPOL_BIND);
  EXPECT_EQ(nodes.front(), 1U);
}

TEST(pages, absent_numa_node_is_named) {
  for (const unsigned node : {1000U, std::numeric_limits<unsigned>::max()}) {
    EXPECT_THAT(test::refusal([&] { return map_pages(page_size(), {.numa_node = node}); }),
                ::testing::HasSubstr("NUMA node " + std::to_string(node)));
  }
}

TEST(pages, refused_sizes) {
  EXPECT_THROW(map_pages(0), std::invalid_argument);
  constexpr auto most = std::numeric_limits<std::size_t>::max();
  for (const std::size_t bytes : {most, most - page_size(), most / 2}) {
    EXPECT_THROW(map_pages(bytes), std::bad_alloc);
    EXPECT_THROW(map_pages(bytes, {.huge = true}), std::bad_alloc);
  }
}

TEST(pages, sizes_in_whole_pages) {
  EXPECT_EQ(whole_pages(0), 0U);
  for (const std::size_t pages : {1U, 2U, 1000U}) {
    const std::size_t bytes = pages * page_size();
    EXPECT_EQ(whole_pages(bytes - page_size() + 1), bytes);
    EXPECT_EQ(whole_pages(bytes - 1), bytes);
    EXPECT_EQ(whole_pages(bytes), bytes);
  }
  constexpr auto most = std::numeric_limits<std::size_t>::max();
  EXPECT_EQ(whole_pages(most - page_size() + 1), most - page_size() + 1);
  EXPECT_EQ(whole_pages(most - page_size() + 2), 0U);
  EXPECT_EQ(whole_pages(most), 0U);
}

TEST(pages, mode_is_one_of_the_kernels_words) {
  const std::set<std::string_view> words{"always", "madvise", "never", "unavailable"};
  EXPECT_TRUE(words.contains(transparent_huge_pages()));
  EXPECT_EQ(page_size(), static_cast<std::size_t>(sysconf(_SC_PAGESIZE)));
  EXPECT_GE(huge_page_size(), page_size());
}

TEST(page_words, a_page_in_memory_has_a_frame) {
  constexpr std::uint64_t word = std::uint64_t{0x8180'0000'0001'2345};  // soft-dirty and exclusive besides
  EXPECT_TRUE(is_in_memory(word));
  EXPECT_EQ(frame_of(word), 0x12345U);
  EXPECT_FALSE(is_in_memory(word & ~(std::uint64_t{1} << 63U)));
  EXPECT_EQ(frame_of(~std::uint64_t{0}), (std::uint64_t{1} << 55U) - 1);
}

TEST(page_words, huge_pages_are_of_two_kinds) {
  constexpr std::uint64_t hugetlb = std::uint64_t{1} << 17U;
  constexpr std::uint64_t transparent = std::uint64_t{1} << 22U;
  EXPECT_TRUE(is_huge(hugetlb, 5, 6));
  EXPECT_TRUE(is_huge(transparent, 512 * 7 + 3, 512 * 9 + 3));
  EXPECT_FALSE(is_huge(transparent, 512 * 7 + 3, 512 * 9 + 4)) << "of another size";
  EXPECT_FALSE(is_huge(~(hugetlb | transparent), 512 * 7 + 3, 512 * 9 + 3));
}

}  // namespace
}  // namespace espalier::hw
