#pragma once

// Facts about the host and this process that belong beside every measured number. A fact that the system does not
// report is nullopt. Functions with a `root` read below it instead of below "/", for a host's files mounted
// elsewhere.

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace espalier::hw {

/// The kernel's name of the processor; on ARM its implementer and part numbers.
std::optional<std::string> cpu_model(const std::filesystem::path& root = "/");

/// Mean number of runnable tasks over the last 1, 5 and 15 minutes.
std::optional<std::array<double, 3>> load_average();

/// Bytes of memory that this process occupies now.
std::optional<std::uint64_t> resident_bytes();

/// Bytes that this process can still allocate without swapping: the kernel's estimate for the machine, or what
/// the limits of the process's memory cgroup (v1 or v2) and of its ancestors leave, if that is less. File
/// pages that a cgroup can drop count as free. A group whose files are missing or malformed sets no limit.
std::optional<std::uint64_t> available_memory_bytes(const std::filesystem::path& root = "/");

struct context_switch_counts {
  std::uint64_t voluntary;    ///< the thread waited
  std::uint64_t involuntary;  ///< the kernel preempted it
};

/// Of all threads of this process since it began.
std::optional<context_switch_counts> context_switches();

std::optional<std::string> host_name();

/// True if a CPU's frequency governor is another than "performance", so that timings may drift; nullopt
/// if no governor is visible, as in most virtual machines.
std::optional<bool> cpu_scaling_enabled(const std::filesystem::path& root = "/");

}  // namespace espalier::hw
