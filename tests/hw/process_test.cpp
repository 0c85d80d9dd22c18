#include "espalier/hw/process.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <string>
#include <thread>

#include "espalier/hw/pages.hpp"

namespace espalier::hw {
namespace {

namespace fs = std::filesystem;

/// A folder that stands for "/", filled file by file.
class process_root : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(::testing::TempDir()) / ("espalier_process_" + std::to_string(getpid()));
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text;
  }

  static constexpr std::uint64_t kib = 1024;
  fs::path root_;
};

TEST_F(process_root, model_is_the_first_name) {
  write("proc/cpuinfo",
        "processor\t: 0\nmodel\t\t: 2\nmodel name\t: Some CPU: fast\n\nmodel name\t: Other\n");
  EXPECT_EQ(cpu_model(root_), "Some CPU: fast");
}

TEST_F(process_root, arm_model_is_composed) {
  write("proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n");
  EXPECT_EQ(cpu_model(root_), "ARM implementer 0x41 part 0xd0c");
}

TEST_F(process_root, absent_files_are_absent_facts) {
  EXPECT_EQ(cpu_model(root_), std::nullopt);
  EXPECT_EQ(available_memory_bytes(root_), std::nullopt);
  EXPECT_EQ(cpu_scaling_enabled(root_), std::nullopt);
}

TEST_F(process_root, memory_without_cgroups_is_the_machines) {
  write("proc/meminfo", "MemTotal:       2000 kB\nMemFree:         500 kB\nMemAvailable:   1000 kB\n");
  EXPECT_EQ(available_memory_bytes(root_), 1000 * kib);
}

TEST_F(process_root, memory_is_limited_by_cgroup_v2_and_its_ancestors) {
  write("proc/meminfo", "MemAvailable:   1000000 kB\n");
  write("proc/self/cgroup", "0::/a/b\n");
  write("sys/fs/cgroup/a/b/memory.max", "max\n");
  write("sys/fs/cgroup/a/b/memory.current", "100\n");
  EXPECT_EQ(available_memory_bytes(root_), 1000000 * kib);
  write("sys/fs/cgroup/a/memory.max", "500000\n");
  write("sys/fs/cgroup/a/memory.current", "200000\n");
  EXPECT_EQ(available_memory_bytes(root_), 300000U);
  write("sys/fs/cgroup/a/memory.stat", "anon 7\nactive_file 9\ninactive_file 50000\n");
  EXPECT_EQ(available_memory_bytes(root_), 350000U);
  write("sys/fs/cgroup/a/b/memory.max", "50\n");
  EXPECT_EQ(available_memory_bytes(root_), 0U) << "more is used than the limit allows";
}

TEST_F(process_root, memory_is_limited_by_cgroup_v1) {
  write("proc/meminfo", "MemAvailable:   1000 kB\n");
  write("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:hugetlb,memory:/host/path\n0::/\n");
  // In a container the host's path is not mounted; the mount's root is the container's group.
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9000\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "2000\n");
  write("sys/fs/cgroup/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 500\n");
  EXPECT_EQ(available_memory_bytes(root_), 7500U);
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(available_memory_bytes(root_), 1000 * kib);
}

TEST_F(process_root, one_scaling_cpu_is_enough) {
  write("sys/devices/system/cpu/online", "0-1\n");
  EXPECT_EQ(cpu_scaling_enabled(root_), std::nullopt);
  write("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n");
  EXPECT_EQ(cpu_scaling_enabled(root_), false);
  write("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "schedutil\n");
  EXPECT_EQ(cpu_scaling_enabled(root_), true);
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

}  // namespace
}  // namespace espalier::hw
