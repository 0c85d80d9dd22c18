#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

#include "espalier/map/ordered/string_leaf.hpp"
#include "espalier/map/tree/bulk_load.hpp"

// The plan of a load of strings (string_tree.hpp): which entries a leaf has, and which inner nodes are above.
//
// It goes from above to below. Where entries are more than a leaf has room for, they lie below an inner node, whose prefix
// is what they have in common. A leaf ends where the slice of a key is another one than that of the key before it, near the
// place where all leaves would be as full. Where so many keys have one slice that there is no such place, they lie below
// an inner node of their own. So keys have the prefixes of the nodes above them, but for a few: those between two such
// slices, where they are too few for a leaf, come below the node of the second one.

namespace espalier::btree {

/// Of entries in order, for leaves with so many of them at most.
template <class Iterator, unsigned Capacity>
class string_load_plan {
 public:
  struct leaf {
    std::size_t begin;
    std::size_t end;
  };
  struct child {
    slice::type separator;  ///< before it
    std::size_t place;      ///< the index of the first leaf below it
  };
  struct node {
    std::size_t key;  ///< that of an entry with the prefix
    std::size_t depth;
    std::vector<child> children;  ///< two at least, perhaps more than a node has room for
  };

  string_load_plan(Iterator first, std::size_t n) : first_(first) { plan(0, 0, n); }

  [[nodiscard]] const std::vector<leaf>& leaves() const noexcept { return leaves_; }
  /// The children of a node come before it.
  [[nodiscard]] const std::vector<node>& nodes() const noexcept { return nodes_; }

 private:
  /// Plans what is above the entries from `begin` to `end`. The first ones, up to `core`, are a quarter of a leaf at
  /// most, and lack the prefix that the others have in common. Returns the place of the first leaf.
  std::size_t plan(std::size_t begin, std::size_t core, std::size_t end) {
    if (end - begin <= Capacity) {
      leaves_.push_back({begin, end});
      return leaves_.size() - 1;
    }
    constexpr std::size_t fewest = Capacity / 4 + 1;
    const std::size_t depth = common(core, end - 1);
    node made{core, depth, {}};
    for (std::size_t at = begin; at != end;) {
      const slice::type separator =
          at <= core ? 0 : slice::shortest_between(slice_of(at - 1, depth), slice_of(at, depth));
      const std::size_t left = end - at;
      std::size_t next = end;
      if (left > Capacity)
        next = place_to_cut(depth, at + fewest, at + left / nodes_for(left, loaded(Capacity)), at + Capacity);
      if (next != 0) {
        leaves_.push_back({at, next});
        made.children.push_back({separator, leaves_.size() - 1});
      } else {
        // So many keys have the same slice that there must be nodes with a longer prefix.
        const slice::type same = slice_of(at + fewest, depth);
        const auto is_before = [&](std::size_t i) { return slice_of(i, depth) < same; };
        const auto is_same = [&](std::size_t i) { return slice_of(i, depth) == same; };
        const std::size_t first = first_without(std::max(at, core), at + fewest, is_before);
        next = first_without(at + fewest, end, is_same);
        made.children.push_back({separator, plan(at, first, next)});
      }
      at = next;
    }
    const std::size_t place = made.children[0].place;
    if (made.children.size() > 1) nodes_.push_back(std::move(made));
    return place;
  }

  [[nodiscard]] decltype(auto) entry(std::size_t i) const {
    return first_[static_cast<std::iter_difference_t<Iterator>>(i)];
  }
  [[nodiscard]] slice::type slice_of(std::size_t i, std::size_t depth) const {
    const auto& [key, value] = entry(i);
    return slice::at(key, depth);
  }
  [[nodiscard]] std::size_t common(std::size_t i, std::size_t j) const {
    const auto& [left, left_value] = entry(i);
    const auto& [right, right_value] = entry(j);
    return common_prefix(left, right);
  }
  /// The first index from `first` to `last` without a property that only the first ones have.
  template <class Property>
  [[nodiscard]] static std::size_t first_without(std::size_t first, std::size_t last,
                                                 const Property& property) {
    while (first < last) {
      const std::size_t middle = first + (last - first) / 2;
      if (property(middle))
        first = middle + 1;
      else
        last = middle;
    }
    return first;
  }
  /// The place nearest to `wanted` where there can be a separator, from `first` to `last`; 0 if there is none.
  [[nodiscard]] std::size_t place_to_cut(std::size_t depth, std::size_t first, std::size_t wanted,
                                         std::size_t last) const {
    const auto separates = [&](std::size_t i) { return slice_of(i - 1, depth) != slice_of(i, depth); };
    for (std::size_t away = 0; away <= std::max(wanted - first, last - wanted); ++away) {
      if (away <= wanted - first && separates(wanted - away)) return wanted - away;
      if (away <= last - wanted && separates(wanted + away)) return wanted + away;
    }
    return 0;
  }

  const Iterator first_;
  std::vector<leaf> leaves_;
  std::vector<node> nodes_;
};

}  // namespace espalier::btree
