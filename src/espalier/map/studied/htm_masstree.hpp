#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <string_view>

#include "espalier/map/map_concept.hpp"
#include "espalier/map/map_traits.hpp"
#include "espalier/map/studied/elided_access.hpp"
#include "espalier/map/studied/masstree.hpp"
#include "espalier/map/studied/masstree_node.hpp"
#include "espalier/map/tree/tree.hpp"
#include "espalier/sync/elision.hpp"

// htm_masstree: masstree, whose operations are hardware transactions, each of them whole.
// The baseline of Wang et al., "Eunomia: Scaling Concurrent Search Trees under Contention Using HTM", PPoPP 2017,
// beside htm_btree: the trees of Mao, Kohler and Morris, "Cache Craftiness for Fast Multicore Key-Value Storage",
// EuroSys 2012, without versions.
//
// Essence. The code of masstree (masstree.hpp) in one region for each operation, with
// nodes whose versions never change and whose locks are always free. So a node is checked nowhere and marked
// nowhere, and two operations conflict where they touch the same line of memory: the permutation, not the count and
// the keys behind it.
//
// Deviations from the paper, beside those of masstree:
//  1. A region never allocates. One that lacks a node for a split has no effect, and a further region does the whole
//     operation with nodes that were allocated between the two.
//  2. An erase retires the nodes that it has unlinked after the commit.
//  3. update() computes the new value between two regions; the second one stores it if the value is still the same.
//  4. A scan copies one border node in each region, and goes on at the fence behind it.
//  5. Budgets of attempts are those of DBX, as in htm_btree.
//
// Invariants: (M1), (M2) and (M4) of masstree_layer.hpp.
//
// Progress. All operations may wait for the lock, which one of them takes after some hundred aborts at most.
//
// Linearization points: the commit of the region, or any moment with the lock held; a visit of a scan: the commit
// of its node's region.
//
// Orderings: sync/elided_lock.hpp. Of those of masstree_node.hpp, (2) orders the nodes that a transaction has
// published, also for a later transaction that passes the pointer on.

namespace espalier {

namespace btree {

/// What nodes have in place of a node_version where no other thread comes between: in a transaction, or with the lock
/// of the tree.
class no_version {
 public:
  class stamp {
   public:
    [[nodiscard]] node_kind kind() const noexcept { return kind_; }
    [[nodiscard]] static bool deleted() noexcept { return false; }
    [[nodiscard]] static bool lost_keys_since(stamp) noexcept { return false; }

   private:
    friend no_version;
    node_kind kind_{};
  };

  struct [[nodiscard]] guard {
    [[nodiscard]] static bool changed_since(stamp) noexcept { return false; }
    static void mark_inserting() noexcept {}
    static void mark_splitting() noexcept {}
    static void mark_deleted() noexcept {}
  };

  explicit no_version(node_kind kind) noexcept { stamp_.kind_ = kind; }

  [[nodiscard]] stamp stable() const noexcept { return stamp_; }
  [[nodiscard]] static bool changed(stamp) noexcept { return false; }
  static guard lock() noexcept { return {}; }
  [[nodiscard]] node_kind kind() const noexcept { return stamp_.kind(); }
  [[nodiscard]] static bool is_locked() noexcept { return false; }

 private:
  stamp stamp_;
};

}  // namespace btree

template <class Key, class Value, class Traits = map_traits, class Compare = std::less<Key>,
          class Fanout = btree::fanout<15, 16>>
class htm_masstree : public btree::masstree_operations<htm_masstree<Key, Value, Traits, Compare, Fanout>, Key,
                                                       Value, completed_traits<Traits, elided_btree_traits>,
                                                       Compare, Fanout, btree::no_version> {
  using traits = completed_traits<Traits, elided_btree_traits>;
  using base =
      btree::masstree_operations<htm_masstree, Key, Value, traits, Compare, Fanout, btree::no_version>;
  friend base;

 public:
  /// The same map with other entries, another order or other policies.
  template <class K, class V, class C = std::less<K>, class T = Traits>
  using rebind = htm_masstree<K, V, T, C, Fanout>;
  /// The same map with nodes of another size.
  template <unsigned Leaf, unsigned Inner = btree::fanout<Leaf>::inner>
  using with_fanout = htm_masstree<Key, Value, Traits, Compare, btree::fanout<Leaf, Inner>>;

  static constexpr map_properties properties = btree::properties_of(
      "htm_masstree",
      "Wang et al., Eunomia: Scaling Concurrent Search Trees under Contention Using HTM, PPoPP 2017");

  using base::base;
  /// No other thread may use the map any more.
  ~htm_masstree() = default;

  static constexpr std::array<std::string_view, 1> transaction_regions{"whole"};
  /// What became of the transactions of a region; exact when no operation runs.
  [[nodiscard]] elision_counts transactions(std::size_t) const noexcept { return access_.counts(); }

 private:
  using typename base::contract;
  friend contract;

  /// A scan seeks each node: one that it has left may be gone when the next region begins.
  static constexpr bool steps = false;
  template <class Section>
  auto run(Section section) const {
    return access_.once(section);
  }

  // The threads share its lock, and const maps are read.
  mutable btree::elided_tree<traits> access_;
};

}  // namespace espalier
