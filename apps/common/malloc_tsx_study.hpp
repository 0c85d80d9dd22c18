#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// "The Influence of Malloc Placement on TSX Hardware Transactional Memory": what is measured. This file is independent
// of how.

namespace espalier::app::malloc_tsx {

inline constexpr std::string_view study_name = "malloc-tsx";
inline constexpr std::string_view title = "Malloc placement and lock elision";
inline constexpr std::string_view paper =
    "Dice, Harris, Kogan and Lev: The Influence of Malloc Placement on TSX Hardware Transactional Memory "
    "(2015)";

/// Sizes of nodes, in bytes, in ascending order: every 64 from 64 to 4096, and 16 less than each. At the latter glibc's
/// blocks with their headers are multiples of 64.
[[nodiscard]] std::vector<std::uint64_t> node_sizes();

/// For the ring of figure 1.
inline constexpr std::uint64_t paper_nodes = 128;

inline constexpr std::string_view index_aware = "index-aware";
inline constexpr std::string_view random_padding = "random";
/// Kinds of mutexes: taken; elided with every section attempted; elided unless that kept failing.
inline constexpr std::string_view tts = "tts";
inline constexpr std::string_view tle = "tle";
inline constexpr std::string_view tle_learnt = "tle-learnt";

/// Where readings were taken.
struct setting {
  /// Lines of one index that a transaction may write: the ways of the L1 cache.
  unsigned ways = 0;
  /// The name of what represents the C library's malloc: itself, or a model of it.
  std::string glibc = "glibc";
  bool simulated = false;
};

/// One curve at one size of nodes.
struct point {
  std::string malloc;
  std::string locks;
  std::uint64_t size;
  auto operator<=>(const point&) const = default;
};

struct placed_reading {
  /// Operations per second in each round; rounds of one size were taken in turns. One value if it was simulated.
  std::vector<double> rounds;
  /// Blocks at the fullest index of the L1 cache; simulated: lines with such blocks.
  std::uint64_t largest_load = 0;
  /// The share of critical sections that were elided; nullopt if there are no transactions.
  std::optional<double> committed;
  /// Attempts to elide that did not fit, per operation.
  std::optional<double> capacity_aborts;
};

/// All curves of one chart.
class placed_readings {
 public:
  void add(const point& at, placed_reading r) { all_[at] = std::move(r); }
  [[nodiscard]] const placed_reading* find(const point& at) const {
    const auto found = all_.find(at);
    return found == all_.end() ? nullptr : &found->second;
  }
  [[nodiscard]] std::vector<std::uint64_t> sizes() const;
  [[nodiscard]] std::vector<std::string> mallocs() const;
  [[nodiscard]] const std::map<point, placed_reading>& all() const noexcept { return all_; }

  /// Throughput divided by throughput at one size: the median of the rounds' ratios. nullopt if one is missing.
  [[nodiscard]] std::optional<double> ratio(const point& one, const point& other) const;

  /// Sizes at which more blocks begin at one index than the cache has ways.
  [[nodiscard]] std::vector<std::uint64_t> overloaded(std::string_view malloc, unsigned ways) const;

 private:
  std::map<point, placed_reading> all_;
};

}  // namespace espalier::app::malloc_tsx
