#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace espalier::measure {

/// "jemalloc" if the process uses it, else "libc".
[[nodiscard]] std::string_view malloc_name() noexcept;

/// Bytes that the process has allocated from malloc and not freed, counted in the sizes that malloc holds.
[[nodiscard]] std::optional<std::uint64_t> heap_bytes_in_use() noexcept;

/// The circumstances of a measurement, without which its figures mean little. What is unknown is empty, and becomes the
/// word "unavailable" in results.
struct run_context {
  struct cache {
    std::string type;
    unsigned level;
    std::optional<std::uint64_t> bytes;
    std::size_t sharing;
  };

  std::string date;
  std::optional<std::string> host;
  std::size_t processors;
  double mhz;
  std::optional<bool> cpu_scaling;
  std::vector<cache> caches;
  std::optional<std::array<double, 3>> load;
  std::string build_type;
  std::string version;
  std::string commit;
  std::string compiler;
  std::string build_flags;
  std::optional<std::string> cpu_model;
  std::string topology;
  std::string tsc_source;
  std::string huge_pages;
  std::string rtm;
  std::string fence;
  bool hardware_counters;
  std::string malloc;
  std::uint64_t seed;
  std::string pinning;
  /// The measurement was interrupted. The results are those of the completed runs.
  bool incomplete = false;
};

/// Examines the machine at the time of the call.
[[nodiscard]] run_context gather_context(std::uint64_t seed, std::string pinning, bool incomplete);

}  // namespace espalier::measure
