#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/studies/study_claims.hpp"
#include "apps/studies/study_output.hpp"

// "The Influence of Malloc Placement on TSX Hardware Transactional Memory": what is measured, and what the paper claims
// of it. This file is independent of how it is measured.

namespace espalier::app::malloc_tsx {

// Readings ------------------------------------------------------------------------------------------------------------

inline constexpr const char* study_name = "malloc-tsx";
inline constexpr const char* title = "Malloc placement and lock elision";
inline constexpr const char* paper =
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

// Claims --------------------------------------------------------------------------------------------------------------

// A size is bad if glibc's blocks follow each other at a multiple of 512 bytes, as the paper states. Claims are
// not judged if the data were not measured, or cannot be without transactions.

/// Claims of figure 1, a ring of nodes that one thread traverses; the paper's ring has paper_nodes. For other rings,
/// the consequences of the claims.
[[nodiscard]] std::vector<judged_claim> judge_ring(const placed_readings& measured, std::uint64_t nodes,
                                                   const setting& in);

/// Claims of figure 2, an AVL tree under one lock, that hold for one thread as well.
[[nodiscard]] std::vector<judged_claim> judge_tree(const placed_readings& measured, const setting& in);

/// Claims of figure 2 that need several threads.
[[nodiscard]] std::vector<judged_claim> judge_concurrent_tree(const placed_readings& measured,
                                                              unsigned threads, const setting& in);

/// A claim about the tree with sections that allocate after the search, compared with that of figure 2.
[[nodiscard]] judged_claim judge_late_tree(const placed_readings& measured, const placed_readings& figure_2,
                                           const setting& in);

/// Judges sections that allocate bump-allocated blocks: they can be elided if the allocator had its pages before.
[[nodiscard]] judged_claim judge_fresh(const placed_readings& measured);

/// The fullest index determines what fits a transaction: with more lines there than ways no section commits; with
/// fewer, more than nine in ten do. The limit is one line less than the ways, for what a section needs besides the
/// nodes.
struct capacity_law {
  std::uint64_t overloaded = 0;
  std::uint64_t overloaded_hold = 0;
  std::uint64_t roomy = 0;
  std::uint64_t roomy_hold = 0;
  /// Rings on which the law makes no statement, with as many lines as ways; and those of them that committed.
  std::uint64_t full = 0;
  std::uint64_t full_commit = 0;

  [[nodiscard]] std::uint64_t configurations() const noexcept { return overloaded + roomy; }
  [[nodiscard]] std::uint64_t holds() const noexcept { return overloaded_hold + roomy_hold; }
};
/// Over all rings in which every section was attempted.
[[nodiscard]] capacity_law law_of(const std::vector<const placed_readings*>& rings, unsigned ways);
/// Judges whether the law holds for 99 rings of 100.
[[nodiscard]] judged_claim judge_law(const capacity_law& law, unsigned ways);

// Figures: their names, and the charts of the readings, measured or simulated alike ------------------------------------

/// A ring of nodes that one thread traverses; without charts and findings.
[[nodiscard]] charted_figure ring_figure(std::uint64_t nodes);
/// A tree of keys below `keys` under several threads, in which sections allocate a node before they search.
[[nodiscard]] charted_figure tree_figure(std::uint64_t keys, unsigned threads);
/// The same, but sections allocate once they know that they need a node.
[[nodiscard]] charted_figure late_tree_figure(std::uint64_t keys, unsigned threads);

/// Curves by malloc and locks.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> curves_of(const placed_readings& readings);

/// Charts over the sizes of nodes. Loads are shown for a ring, where they may be compared with the ways.
[[nodiscard]] std::vector<chart> charts_of(const placed_readings& readings, bool ring, const setting& in);

/// Charts show throughput as a multiple of the throughput under these.
inline constexpr std::string_view reference_malloc = index_aware;
inline constexpr std::string_view reference_locks = tts;

/// One row per curve: over all sizes, the throughput by that of the reference, loads, and how sections ended. Sizes at
/// which an index is overloaded are counted for a ring.
[[nodiscard]] std::string summary_table(const placed_readings& readings, bool ring, const setting& in,
                                        bool colour);

/// The name of an entry of `benchmarks`.
[[nodiscard]] std::string entry_name(std::string_view figure, const point& at);
/// Adds a reading's members to such an entry; `loads` are blocks, or lines, at each index.
void add_reading(nlohmann::ordered_json& entry, const point& at, const placed_reading& r,
                 const std::vector<std::uint64_t>& loads);

}  // namespace espalier::app::malloc_tsx
