#pragma once

#include <cstdint>
#include <vector>

#include "apps/common/malloc_tsx_study.hpp"
#include "apps/common/study_claims.hpp"

// The claims of "The Influence of Malloc Placement on TSX Hardware Transactional Memory", judged over readings from any
// source. A size is bad if glibc's blocks follow each other at a multiple of 512 bytes, as the paper states. Claims are
// not judged if the data were not measured, or cannot be without transactions.

namespace espalier::app::malloc_tsx {

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

}  // namespace espalier::app::malloc_tsx
