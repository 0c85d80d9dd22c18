#pragma once

// One set-associative cache: which lines it holds, not their contents. Also serves as a TLB array, where "lines" are
// page numbers. pseudo_lru says which way of a set is replaced: what processors use instead of exact
// least-recently-used order.

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "sim/machine/machine_spec.hpp"

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

/// pseudo_lru chooses the line to replace, with trees of the given number of ways. Trees of one way give exact LRU
/// order: a set is then kept in order of use, the latest first and free ways last, so that replacement needs no clock
/// and a repeated hit compares one word. Otherwise lines stay in their ways. Free ways are filled first. Line numbers
/// are below line_limit. Every operation is O(ways).
class cache {
 public:
  using line_number = std::uint32_t;
  static constexpr std::uint64_t line_limit = (std::uint64_t{1} << 31) - 1;

  /// One way: a line and a mark to which the owner of the cache gives a meaning.
  class way {
   public:
    bool is_free() const noexcept { return word_ == free_word; }
    bool holds(line_number line) const noexcept { return (word_ | 1u) == ((line << 1) | 1u); }
    line_number line() const noexcept { return word_ >> 1; }
    bool marked() const noexcept { return (word_ & 1u) != 0; }
    void mark(bool on) noexcept { word_ = (word_ & ~1u) | (on ? 1u : 0u); }

   private:
    friend class cache;
    static constexpr std::uint32_t free_word = 0xffffffff;
    std::uint32_t word_ = free_word;
  };

  explicit cache(const hw::cache_shape& spec, unsigned tree_ways = 1)
      : sets_(spec.sets),
        ways_(spec.ways),
        slices_(spec.slices),
        mask_((spec.sets & (spec.sets - 1)) == 0 ? spec.sets - 1 : 0),
        in_trees_(tree_ways != 1),
        content_(static_cast<std::size_t>(spec.lines())),
        trees_(in_trees_ ? static_cast<std::size_t>(spec.all_sets()) : 0, in_trees_ ? spec.ways : 1,
               tree_ways) {}

  unsigned set_of(line_number line) const noexcept {
    const unsigned set = mask_ != 0 ? line & mask_ : line % sets_;
    return slices_ == 1 ? set : hw::slice_of(std::uint64_t{line} * line_bytes, slices_) * sets_ + set;
  }

  /// The way that holds the line, now the latest used of its set; null if there is none. The pointer is valid until the
  /// next change of this cache.
  way* use(line_number line) noexcept {
    const unsigned number = set_of(line);
    way* const set = begin_of(number);
    if (in_trees_) return use_in_tree(number, line);
    if (set[0].holds(line)) [[likely]]
      return set;
    const unsigned at = position(set, line);
    if (at == ways_) return nullptr;
    const way found = set[at];
    std::memmove(set + 1, set, at * sizeof(way));
    set[0] = found;
    return set;
  }

  /// As use(), but does not count as a use.
  way* find(line_number line) noexcept {
    way* const set = set_begin(line);
    const unsigned at = position(set, line);
    return at == ways_ ? nullptr : set + at;
  }
  bool contains(line_number line) const noexcept {
    const way* const set = set_begin(line);
    return position(set, line) != ways_;
  }

  /// The line that insert() would return.
  std::optional<way> victim_for(line_number line) const noexcept {
    const unsigned number = set_of(line);
    const way gone = begin_of(number)[in_trees_ ? place_in_tree(number) : ways_ - 1];
    return gone.is_free() ? std::nullopt : std::optional<way>(gone);
  }

  /// Inserts an absent line, unmarked; returns the line that it replaces.
  std::optional<way> insert(line_number line) noexcept {
    const unsigned number = set_of(line);
    way* const set = begin_of(number);
    const unsigned at = in_trees_ ? place_in_tree(number) : ways_ - 1;
    const way gone = set[at];
    if (in_trees_) {
      set[at].word_ = line << 1;
      trees_.use(number, at);
    } else {
      std::memmove(set + 1, set, at * sizeof(way));
      set[0].word_ = line << 1;
    }
    return gone.is_free() ? std::nullopt : std::optional<way>(gone);
  }

  /// True if the line was present.
  bool remove(line_number line) noexcept {
    way* const set = set_begin(line);
    const unsigned at = position(set, line);
    if (at == ways_) return false;
    if (in_trees_) {
      set[at] = way{};
      return true;
    }
    std::memmove(set + at, set + at + 1, (ways_ - 1 - at) * sizeof(way));
    set[ways_ - 1] = way{};
    return true;
  }

  void clear() noexcept {
    std::fill(content_.begin(), content_.end(), way{});
    if (in_trees_) trees_.clear();
  }

  /// Calls visitor(const way&) for each line held, in order of the sets.
  template <class Visitor>
  void visit(Visitor visitor) const {
    for (const way& w : content_)
      if (!w.is_free()) visitor(w);
  }

 private:
  way* begin_of(unsigned set) noexcept { return content_.data() + std::size_t{set} * ways_; }
  const way* begin_of(unsigned set) const noexcept { return content_.data() + std::size_t{set} * ways_; }
  way* set_begin(line_number line) noexcept { return begin_of(set_of(line)); }
  const way* set_begin(line_number line) const noexcept { return begin_of(set_of(line)); }

  way* use_in_tree(unsigned number, line_number line) noexcept {
    way* const set = begin_of(number);
    // A second use of the latest line changes nothing, and most uses are of that line.
    if (way* const latest = set + trees_.latest(number); latest->holds(line)) [[likely]]
      return latest;
    const unsigned at = position(set, line);
    if (at == ways_) return nullptr;
    trees_.use(number, at);
    return set + at;
  }
  /// The way in which to insert an absent line.
  unsigned place_in_tree(unsigned number) const noexcept {
    const way* const set = begin_of(number);
    for (unsigned at = 0; at < ways_; ++at)
      if (set[at].is_free()) return at;
    return trees_.victim(number);
  }
  unsigned position(const way* set, line_number line) const noexcept {
    unsigned at = 0;
    while (at < ways_ && !set[at].holds(line)) ++at;
    return at;
  }

  unsigned sets_;
  unsigned ways_;
  unsigned slices_;
  unsigned mask_;  // 0 if the number of sets is no power of two, or is 1
  bool in_trees_;
  std::vector<way> content_;
  pseudo_lru trees_;  // without sets if the order is exact LRU
};

}  // namespace espalier::sim
