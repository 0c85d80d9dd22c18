#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/common/study_claims.hpp"

// "The Influence of Malloc Placement on TSX Hardware Transactional Memory": what is measured, and what the paper says of
// it. Nothing here knows how it was measured.

namespace espalier::app::malloc_tsx {

inline constexpr std::string_view study_name = "malloc-tsx";
inline constexpr std::string_view title = "Malloc placement and lock elision";
inline constexpr std::string_view paper =
    "Dice, Harris, Kogan and Lev: The Influence of Malloc Placement on TSX Hardware Transactional Memory "
    "(2015)";

/// Sizes of nodes, in bytes, in ascending order: every 64 from 64 to 4096, and 16 less than each, where glibc's blocks
/// with their heads are multiples of 64.
[[nodiscard]] std::vector<std::uint64_t> node_sizes();

/// One curve at one size of nodes.
struct point {
  std::string malloc;
  std::string locks;
  std::uint64_t size;
  auto operator<=>(const point&) const = default;
};

struct placed_reading {
  /// Operations per second in each round; rounds of one size were taken in turns.
  std::vector<double> rounds;
  /// Blocks at the index of the L1 cache that has the most of them.
  std::uint64_t largest_load = 0;
  /// Of the critical sections, those that were elided; none where there are no transactions.
  std::optional<double> committed;
  /// Attempts to elide that did not fit, for an operation.
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

  /// Throughput over throughput at one size: the median of the rounds' ratios. Nothing where one is missing.
  [[nodiscard]] std::optional<double> ratio(const point& one, const point& other) const;

  /// Sizes at which more blocks begin at one index than the cache has ways.
  [[nodiscard]] std::vector<std::uint64_t> overloaded(const std::string& malloc, unsigned ways) const;

 private:
  std::map<point, placed_reading> all_;
};

struct curve_finding {
  std::string claim;
  judgement ours;
  /// Whether it is the paper's claim, or what follows from it.
  bool of_paper = true;

  /// With where it is from, for texts that have no place for that.
  [[nodiscard]] std::string source() const { return of_paper ? "The paper" : "Beyond the paper"; }
};

/// Of figure 1, a ring of nodes that one thread goes round; the paper has one of 128. `ways` are those of the L1 cache.
[[nodiscard]] std::vector<curve_finding> judge_ring(const placed_readings& measured, std::uint64_t nodes,
                                                    unsigned ways);

/// Of figure 2, an AVL tree under one lock. `ring` is figure 1's of 128 nodes, which says what sizes are bad.
[[nodiscard]] std::vector<curve_finding> judge_tree(const placed_readings& measured,
                                                    const placed_readings& ring, unsigned threads,
                                                    unsigned ways);

/// Fresh blocks, allocated in a section: the allocator that had its pages before.
[[nodiscard]] curve_finding judge_fresh(const placed_readings& measured);

/// What fits a transaction is a matter of the fullest index. Of all readings with transactions, how many
/// are as it says: above `ways` none commits, below almost all do.
[[nodiscard]] curve_finding judge_law(const std::vector<const placed_readings*>& rings, unsigned ways);

}  // namespace espalier::app::malloc_tsx
