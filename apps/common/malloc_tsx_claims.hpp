#pragma once

#include <cstdint>
#include <vector>

#include "apps/common/malloc_tsx_study.hpp"
#include "apps/common/study_claims.hpp"

// What "The Influence of Malloc Placement on TSX Hardware Transactional Memory" says, judged over readings, wherever
// these are from. A size is bad where glibc's blocks follow each other at a multiple of 512 bytes, as the paper has it.
// What was not measured, or cannot be without transactions, is not judged.

namespace espalier::app::malloc_tsx {

/// Of figure 1, a ring of nodes that one thread goes round; the paper has one of paper_nodes. Of others, what follows.
[[nodiscard]] std::vector<judged_claim> judge_ring(const placed_readings& measured, std::uint64_t nodes,
                                                   const setting& in);

/// Of figure 2, an AVL tree under one lock: what is so for one thread as well.
[[nodiscard]] std::vector<judged_claim> judge_tree(const placed_readings& measured, const setting& in);

/// Of figure 2, what takes several threads.
[[nodiscard]] std::vector<judged_claim> judge_concurrent_tree(const placed_readings& measured,
                                                              unsigned threads, const setting& in);

/// Of the tree whose sections allocate once they have searched, beside that of figure 2.
[[nodiscard]] judged_claim judge_late_tree(const placed_readings& measured, const placed_readings& figure_2,
                                           const setting& in);

/// Fresh blocks, allocated in a section: the allocator that had its pages before.
[[nodiscard]] judged_claim judge_fresh(const placed_readings& measured);

/// What fits a transaction is a matter of the fullest index: with more lines there than ways no section commits, with
/// fewer more than nine in ten do. One line fewer, for what a section needs beside the nodes.
struct capacity_law {
  std::uint64_t overloaded = 0;
  std::uint64_t overloaded_hold = 0;
  std::uint64_t roomy = 0;
  std::uint64_t roomy_hold = 0;
  /// Of which the law says nothing: as many lines as ways. Those that committed.
  std::uint64_t full = 0;
  std::uint64_t full_commit = 0;

  [[nodiscard]] std::uint64_t configurations() const noexcept { return overloaded + roomy; }
  [[nodiscard]] std::uint64_t holds() const noexcept { return overloaded_hold + roomy_hold; }
};
/// Over all rings whose every section was attempted.
[[nodiscard]] capacity_law law_of(const std::vector<const placed_readings*>& rings, unsigned ways);
/// Of 99 rings in a hundred.
[[nodiscard]] judged_claim judge_law(const capacity_law& law, unsigned ways);

}  // namespace espalier::app::malloc_tsx
