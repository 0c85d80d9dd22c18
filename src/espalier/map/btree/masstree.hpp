#pragma once

#include <string>
#include <type_traits>

#include "espalier/map/btree/masstree_node.hpp"
#include "espalier/map/btree/masstree_strings.hpp"
#include "espalier/map/btree/masstree_words.hpp"
#include "espalier/map/btree/tree.hpp"
#include "espalier/map/map_concept.hpp"
#include "espalier/map/map_traits.hpp"

// masstree: a B+tree whose readers take no lock and whose inserts disturb none.
// Mao, Kohler and Morris, "Cache Craftiness for Fast Multicore Key-Value Storage", EuroSys 2012.
//
// Essence. A border node keeps its entries in slots in any order; one word, the permutation, gives the order
// (masstree_node.hpp). An insert and an erase take effect by the store of that word, without a new version of the node.
// Nodes have separate counters for inserts and splits, so that a reader knows what has happened: nothing that concerns
// it, another child, or keys that went to the right (masstree_layer.hpp). All lines of a node are requested at once.
// For strings there are many such trees, one below the other (masstree_strings.hpp).
//
// Deviations from the paper and its public code:
//  1. A border node that becomes empty is unlinked, the leftmost one too, and its ancestors that have no other child.
//     The public code keeps the leftmost one; a window of keys that moves then leaves nodes behind.
//  2. The range of an unlinked border node falls to the left neighbour only below the same ancestor. Otherwise it falls
//     to the right one, with the low key. So no separator further up changes, and a thread that waits at the left
//     neighbour since before a split follows the low key to the node that has the range now.
//  3. The first insert after an erase gives the node a new version, since it may use the slot of that erase again: a
//     reader could otherwise combine the old key with the new value.
//  4. A split locks the ancestors that it will change before it changes anything. Nodes for it are allocated before the
//     locks are taken, so an allocation that fails changes nothing.
//  5. A root is exchanged where the pointer to it is, at once. The public code lets readers go up from a former root.
//  6. A border node has a field for its low key. The public code keeps the slot of that key from being used again.
//  7. The version has 64 bits. Its counter of splits does not wrap while a reader is stopped.
//
// Invariants: (M1) to (M4) of masstree_layer.hpp.
//
// Progress. All operations may wait: reads for splits on their way, updates also for the lock of a node.
//
// Linearization points
//   find, contains -> present        the load of the permutation, or of the value if that is newer
//   find, contains -> absent         the load of the permutation; of the root, in an empty map
//   insert -> true, erase -> true    the store of the permutation
//   assign, update                   the store of the value, or that of the permutation
//   insert -> false, erase -> false  the load of the permutation, the last one, with or without the lock
//   a visit of a scan                the load of the permutation or of the value
//
// Orderings: those of masstree_node.hpp. The acquire of a value's load orders a reader after the writer of it.

namespace espalier {

namespace btree {
template <class Map, class Key, class Value, class Traits, class Compare, class Fanout>
using masstree_for =
    std::conditional_t<std::is_same_v<Key, std::string>,
                       masstree_of_strings<Map, Value, Traits, Compare, Fanout>,
                       masstree_of_words<Map, Key, Value, Traits, Compare, Fanout, node_version>>;
}  // namespace btree

template <class Key, class Value, class Traits = map_traits, class Compare = default_order<Key>,
          class Fanout = btree::fanout<15, 16>>
class masstree : public btree::masstree_for<masstree<Key, Value, Traits, Compare, Fanout>, Key, Value,
                                            completed_traits<Traits, btree_traits>, Compare, Fanout> {
  using base =
      btree::masstree_for<masstree, Key, Value, completed_traits<Traits, btree_traits>, Compare, Fanout>;
  friend base;

 public:
  /// The same map with other entries, another order or other policies.
  template <class K, class V, class C = default_order<K>, class T = Traits>
  using rebind = masstree<K, V, T, C, Fanout>;
  /// The same map with nodes of another size.
  template <unsigned Leaf, unsigned Inner = btree::fanout<Leaf>::inner>
  using with_fanout = masstree<Key, Value, Traits, Compare, btree::fanout<Leaf, Inner>>;

  static constexpr map_properties properties = btree::properties_of(
      "masstree",
      "Mao, Kohler and Morris, Cache Craftiness for Fast Multicore Key-Value Storage, EuroSys 2012");

  using base::base;
  /// No other thread may use the map any more.
  ~masstree() = default;

 private:
  using typename base::contract;
  friend contract;

  /// Scans go from node to node.
  static constexpr bool steps = true;
  template <class Section>
  static auto run(Section section) noexcept {
    return section();
  }
};

}  // namespace espalier
