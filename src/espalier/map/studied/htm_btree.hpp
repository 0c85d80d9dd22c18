#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <string_view>

#include "espalier/map/map_concept.hpp"
#include "espalier/map/map_traits.hpp"
#include "espalier/map/studied/elided_access.hpp"
#include "espalier/map/tree/node.hpp"
#include "espalier/map/tree/tree.hpp"
#include "espalier/sync/elision.hpp"

// htm_btree: a B+tree whose operations are hardware transactions, each of them whole.
// Wang, Qian, Li and Chen, "Using Restricted Transactional Memory to Build a Scalable In-Memory Database", EuroSys 2014
// (DBX); the baseline of Wang et al., "Eunomia: Scaling Concurrent Search Trees under Contention Using HTM", PPoPP 2017.
//
// Essence. A sequential B+tree. Each operation is one transaction that only reads the lock of the tree, and that takes
// it after too many aborts. The nodes have no locks and no versions: the memory system finds the conflicts.
//
// Deviations from the papers and their public code:
//  1. A region never allocates. An insert that finds its leaf full ends, and further regions split one node each, with
//     nodes allocated before. The public code allocates some nodes in the region, where a system call aborts it.
//  2. The value is stored in the region. The public code stores it after the region, perhaps in a record that another
//     thread has erased meanwhile.
//  3. erase merges nodes, in regions of their own, and a node is retired after the commit that unlinks it.
//  4. update() computes the new value between two regions; the second one stores it if the value is still the same.
//  5. A scan copies one leaf in each region, and goes on at the separator behind it.
//
// Invariants: (B1) and (B3) of tree.hpp. Entries of a leaf are in order, without gaps.
//
// Progress. All operations may wait for the lock, which one of them takes after some hundred aborts at most.
//
// Linearization points: the commit of the region, or any moment with the lock held; a visit of a scan: the commit of
// its leaf's region.
//
// Orderings: sync/elided_lock.hpp.

namespace espalier {

template <class Key, class Value, class Traits = map_traits, class Compare = std::less<Key>,
          class Fanout = btree::fanout<31, 31>>
class htm_btree;

template <class Key, class Value, class Traits, class Compare, class Fanout>
class htm_btree : public btree::tree<htm_btree<Key, Value, Traits, Compare, Fanout>, Key, Value,
                                     completed_traits<Traits, elided_btree_traits>, Compare,
                                     btree::sorted<Key, Fanout::leaf>::template leaf, Fanout::inner,
                                     btree::elided_tree<completed_traits<Traits, elided_btree_traits>>> {
  using base = btree::tree<htm_btree, Key, Value, completed_traits<Traits, elided_btree_traits>, Compare,
                           btree::sorted<Key, Fanout::leaf>::template leaf, Fanout::inner,
                           btree::elided_tree<completed_traits<Traits, elided_btree_traits>>>;
  friend base;
  using typename base::contract;
  friend contract;

 public:
  /// The same map with other entries, another order or other policies.
  template <class K, class V, class C = std::less<K>, class T = Traits>
  using rebind = htm_btree<K, V, T, C, Fanout>;
  /// The same map with nodes of another size.
  template <unsigned Leaf, unsigned Inner = btree::fanout<Leaf>::inner>
  using with_fanout = htm_btree<Key, Value, Traits, Compare, btree::fanout<Leaf, Inner>>;

  static constexpr map_properties properties = btree::properties_of(
      "htm_btree", "Wang, Qian, Li and Chen, Using Restricted Transactional Memory, EuroSys 2014");

  /// Entries in a leaf, at most.
  static constexpr unsigned node_entries = Fanout::leaf;

  using base::base;

  static constexpr std::array<std::string_view, 1> transaction_regions{"whole"};
  /// What became of the transactions of a region; exact when no operation runs.
  [[nodiscard]] elision_counts transactions(std::size_t) const noexcept { return base::access_.counts(); }
};

}  // namespace espalier
