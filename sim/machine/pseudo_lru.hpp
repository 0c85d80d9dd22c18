#pragma once

// Which way of a set is replaced: what processors use instead of exact least-recently-used order.

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace espalier::sim {

/// The ways of each set form binary trees. A use turns every bit on the way's path up away from it, so that the bits
/// lead from the root to the tree's victim. If a set has several trees, the least recently used tree gives the victim.
/// Trees of one way give exact LRU order. One tree of all ways is the pseudo-LRU of Intel's L1 caches of 8 ways. Three
/// trees of four ways are those of 12 ways (Abel and Reineke, nanoBench, ISPASS 2020, and uops.info/cache.html,
/// "LRU3PLRU4").
///
/// A sequence of misses replaces every way once before it replaces any twice. Among hits, a way may become the victim
/// after few uses of others: as many as its tree has levels plus the number of other trees. That is 3 with 8 ways in
/// one tree and 4 with 12 in three. In exact LRU order every other way must have been used. O(log ways + trees) per
/// operation.
class pseudo_lru {
 public:
  static constexpr unsigned most_ways = 32;
  static constexpr unsigned most_trees = 8;
  /// Whether sets of `ways` can form trees of `tree_ways`.
  static constexpr bool possible(unsigned ways, unsigned tree_ways) noexcept {
    return tree_ways != 0 && (tree_ways & (tree_ways - 1)) == 0 && ways % tree_ways == 0 &&
           ways <= most_ways && ways / tree_ways <= most_trees;
  }

  /// possible(ways, tree_ways).
  pseudo_lru(std::size_t sets, unsigned ways, unsigned tree_ways) : tree_ways_(tree_ways), sets_(sets) {
    assert(possible(ways, tree_ways));
    trees_ = ways / tree_ways;
    clear();
  }

  /// Resets the trees: every tree's victim is its first way, and the set's victim is that of the first tree.
  void clear() noexcept {
    state fresh;
    for (unsigned tree = 0; tree < trees_; ++tree) fresh.recent = fresh.recent << tree_bits | tree;
    for (state& s : sets_) s = fresh;
  }

  void use(std::size_t set, unsigned way) noexcept {
    state& s = sets_[set];
    const unsigned tree = way / tree_ways_;
    const unsigned leaf = way % tree_ways_;
    s.latest = way;
    unsigned node = 1;
    for (unsigned half = tree_ways_ / 2; half != 0; half /= 2) {
      const unsigned right = (leaf & half) != 0 ? 1 : 0;
      const std::uint32_t bit = std::uint32_t{1} << (tree * tree_ways_ + node);
      s.lead_right = right != 0 ? s.lead_right & ~bit : s.lead_right | bit;
      node = 2 * node + right;
    }
    to_front(s, tree);
  }

  /// The latest used way; the first if none was used.
  [[nodiscard]] unsigned latest(std::size_t set) const noexcept { return sets_[set].latest; }

  [[nodiscard]] unsigned victim(std::size_t set) const noexcept {
    const state& s = sets_[set];
    const unsigned tree = s.recent >> (trees_ - 1) * tree_bits;
    unsigned node = 1;
    while (node < tree_ways_) node = 2 * node + (s.lead_right >> (tree * tree_ways_ + node) & 1U);
    return tree * tree_ways_ + node - tree_ways_;
  }

 private:
  static constexpr unsigned tree_bits = 4;

  struct state {
    /// The bits of each tree's nodes, numbered from 1 as in a heap, at tree * tree_ways + node.
    std::uint32_t lead_right = 0;
    /// The trees by recency, the latest used in the lowest bits.
    std::uint32_t recent = 0;
    std::uint32_t latest = 0;
  };

  static void to_front(state& s, unsigned tree) noexcept {
    unsigned at = 0;
    while ((s.recent >> at & ((1U << tree_bits) - 1)) != tree) at += tree_bits;
    const std::uint32_t later = s.recent & ((std::uint32_t{1} << at) - 1);
    const std::uint32_t earlier = at + tree_bits == 32 ? 0 : s.recent >> (at + tree_bits) << (at + tree_bits);
    s.recent = earlier | later << tree_bits | tree;
  }

  unsigned tree_ways_;
  unsigned trees_ = 0;
  std::vector<state> sets_;
};

}  // namespace espalier::sim
