#include "espalier/hw/process.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string_view>
#include <system_error>

#include "espalier/hw/pages.hpp"
#include "espalier/io/text.hpp"

namespace espalier::hw {
namespace {

namespace fs = std::filesystem;

/// Value of the first line "key : value".
std::optional<std::string> field(const fs::path& file, std::string_view key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const auto colon = line.find(':');
    if (colon == std::string::npos || io::trimmed(std::string_view(line).substr(0, colon)) != key) continue;
    const auto value = io::trimmed(std::string_view(line).substr(colon + 1));
    if (!value.empty()) return std::string(value);
  }
  return std::nullopt;
}

/// The number that a file's first line is; nullopt for a missing file and for words such as "max".
std::optional<std::uint64_t> number_in(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return io::parse_whole<std::uint64_t>(io::trimmed(line));
}

/// The number beside a key in lines "key number".
std::optional<std::uint64_t> statistic(const fs::path& file, std::string_view key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const std::string_view text = line;
    if (text.starts_with(key) && text.substr(key.size()).starts_with(' '))
      return io::parse_whole<std::uint64_t>(io::trimmed(text.substr(key.size())));
  }
  return std::nullopt;
}

/// How a version of cgroups names its files.
struct cgroup_files {
  const char* limit;
  const char* used;
  const char* droppable;
};
constexpr cgroup_files version_1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};
constexpr cgroup_files version_2{"memory.max", "memory.current", "inactive_file"};

std::optional<std::uint64_t> left_in_group(const fs::path& group, const cgroup_files& files) {
  const auto limit = number_in(group / files.limit);
  const auto used = number_in(group / files.used);
  if (!limit || !used) return std::nullopt;
  const auto droppable = statistic(group / "memory.stat", files.droppable).value_or(0);
  const auto held = *used - std::min(*used, droppable);
  return *limit - std::min(*limit, held);
}

/// Lowers `available` to the least that a group and its ancestors leave. Inside a container the path may name groups
/// that are not mounted; those are skipped, and the mount's root is the container's own group. A path that leads out of
/// the mount, as "/../other", is that of a process outside of its namespace's root.
void lower_to_groups(std::uint64_t& available, const fs::path& mount, fs::path group,
                     const cgroup_files& files) {
  group = group.relative_path();
  if (std::find(group.begin(), group.end(), "..") != group.end()) group.clear();
  for (;;) {
    if (const auto left = left_in_group(mount / group, files)) available = std::min(available, *left);
    if (group.empty()) return;
    group = group.parent_path();
  }
}

}  // namespace

std::optional<std::string> cpu_model(const fs::path& root) {
  const auto file = root / "proc/cpuinfo";
  if (auto name = field(file, "model name")) return name;
  const auto implementer = field(file, "CPU implementer");
  const auto part = field(file, "CPU part");
  if (implementer && part) return "ARM implementer " + *implementer + " part " + *part;
  return std::nullopt;
}

std::optional<std::array<double, 3>> load_average() {
  std::array<double, 3> means{};
  if (getloadavg(means.data(), 3) != 3) return std::nullopt;
  return means;
}

std::optional<std::uint64_t> resident_bytes() {
  std::uint64_t total = 0;
  std::uint64_t resident = 0;
  if (std::ifstream("/proc/self/statm") >> total >> resident) return resident * page_size();
  return std::nullopt;
}

std::optional<std::uint64_t> available_memory_bytes(const fs::path& root) {
  // "MemAvailable:   123 kB": the name ends in a colon, so look the line up as a field.
  const std::string text = field(root / "proc/meminfo", "MemAvailable").value_or("");
  const auto kibibytes = io::parse_whole<std::uint64_t>(std::string_view(text).substr(0, text.find(' ')));
  if (!kibibytes) return std::nullopt;
  std::uint64_t available = *kibibytes * 1024;

  // Each line is "hierarchy:controllers:path"; version 2 has hierarchy 0 and no controllers.
  const auto mount = root / "sys/fs/cgroup";
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const auto first = line.find(':');
    const auto second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const auto controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const fs::path path = line.substr(second + 1);
    if (line.starts_with("0::")) {
      lower_to_groups(available, mount, path, version_2);
    } else if (controllers.find(",memory,") != std::string::npos) {
      lower_to_groups(available, mount / "memory", path, version_1);
    }
  }
  return available;
}

std::optional<context_switch_counts> context_switches() {
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) != 0) return std::nullopt;
  return context_switch_counts{static_cast<std::uint64_t>(usage.ru_nvcsw),
                               static_cast<std::uint64_t>(usage.ru_nivcsw)};
}

std::optional<std::string> host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0 || name.front() == '\0') return std::nullopt;
  return std::string(name.data());
}

std::optional<bool> cpu_scaling_enabled(const fs::path& root) {
  std::optional<bool> enabled;
  std::error_code error;
  for (fs::directory_iterator entry(root / "sys/devices/system/cpu", error), end; !error && entry != end;
       entry.increment(error)) {
    std::string governor;
    if (!(std::ifstream(entry->path() / "cpufreq/scaling_governor") >> governor)) continue;
    enabled = enabled.value_or(false) || governor != "performance";
  }
  return enabled;
}

}  // namespace espalier::hw
