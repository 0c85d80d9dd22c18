#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/studies/study_claims.hpp"
#include "apps/studies/study_output.hpp"

// The costs of an index-aware malloc compared with others: what is measured, and which limits it must meet. This file
// is independent of how it was measured.

namespace espalier::app::malloc_speed {

inline constexpr const char* study_name = "malloc-speed";
inline constexpr const char* title = "The speed of mallocs";
inline constexpr const char* sources =
    "Larson and Krishnan, ISMM 1998; Lever and Boreham, USENIX 2000; Berger, McKinley, Blumofe and Wilson, "
    "ASPLOS 2000; and whole programs";

/// A benchmark under one malloc.
struct cost_reading {
  /// Processor time of the process for each operation or run. The rounds of one benchmark were taken in turns.
  std::vector<double> rounds;
  /// Peak resident memory.
  std::uint64_t peak_kib = 0;
};

class cost_readings;
/// Of a benchmark under one malloc over that under another.
using cost_ratio = std::optional<double> (cost_readings::*)(const std::string& benchmark,
                                                            const std::string& malloc,
                                                            const std::string& other) const;

/// All benchmarks under all mallocs, in the order of their addition.
class cost_readings {
 public:
  void add(const std::string& benchmark, const std::string& malloc, cost_reading r);
  [[nodiscard]] const cost_reading* find(const std::string& benchmark, const std::string& malloc) const;
  [[nodiscard]] const std::vector<std::string>& benchmarks() const noexcept { return benchmarks_; }
  [[nodiscard]] const std::vector<std::string>& mallocs() const noexcept { return mallocs_; }

  /// Time divided by time: the median of the rounds' ratios. nullopt if one is missing.
  [[nodiscard]] std::optional<double> ratio(const std::string& benchmark, const std::string& malloc,
                                            const std::string& other) const;
  /// The rounds' ratios. Empty if one is missing.
  [[nodiscard]] std::vector<double> ratios(const std::string& benchmark, const std::string& malloc,
                                           const std::string& other) const;
  /// Memory divided by memory, likewise.
  [[nodiscard]] std::optional<double> memory_ratio(const std::string& benchmark, const std::string& malloc,
                                                   const std::string& other) const;
  /// The geometric mean of such ratios over all benchmarks. nullopt if one of them is missing.
  [[nodiscard]] std::optional<double> mean(cost_ratio of, const std::string& malloc,
                                           const std::string& other) const;

 private:
  std::map<std::pair<std::string, std::string>, cost_reading> all_;
  std::vector<std::string> benchmarks_;
  std::vector<std::string> mallocs_;
};

/// The cost limits of index-aware classes: at most this factor times mimalloc's time in the geometric mean, and times
/// jemalloc's memory in each benchmark.
inline constexpr double most_time = 1.15;
inline constexpr double most_memory = 1.3;

/// Time compared with mimalloc, time compared with glibc, memory compared with jemalloc.
[[nodiscard]] std::array<judged_claim, 3> judge(const cost_readings& measured);

/// Time relative to mimalloc and to glibc, and memory relative to jemalloc, each with its claim; and the cost of the
/// classes. There are bars by benchmark and for the geometric mean. Mallocs of other libraries are shown as peers.
[[nodiscard]] std::vector<charted_figure> figures_of(const cost_readings& measured,
                                                     const std::vector<missing_map>& missing);

/// Bytes from one block to the next in index-aware classes for this size, including a block's share of the lines that
/// the classes leave out.
[[nodiscard]] double index_aware_bytes(std::size_t asked) noexcept;

}  // namespace espalier::app::malloc_speed
