#pragma once

#include <cstddef>
#include <functional>

#include "espalier/map/map_concept.hpp"
#include "espalier/map/map_traits.hpp"
#include "espalier/map/tree/node.hpp"
#include "espalier/map/tree/optimistic_access.hpp"
#include "espalier/map/tree/tree.hpp"

// olc_btree: a B+tree with optimistic lock coupling.
// Leis, Haubenschild and Neumann, "Optimistic Lock Coupling: A Scalable and Efficient General-Purpose Synchronization
// Method", IEEE Data Engineering Bulletin 42(1), 2019.
//
// Essence. Each node has a lock with a version. A reader descends without locks and validates versions (tree.hpp
// has the protocol, splits and merges). An update descends as a reader does, and then turns its section of the leaf into
// the leaf's lock, in one step that fails if the leaf has changed.
//
// Deviations from the paper and its public code:
//  1. erase, with merges, and reclamation. The public code has neither.
//  2. An insert splits nodes only after it has found its leaf full, in a second descent. The paper splits each full inner
//     node on the way, also for inserts of keys that are there.
//  3. A value is overwritten with the lock of its leaf, but without a new version: a reader that validates has read
//     either the old value or the new one. A hot value does not make the readers of its neighbours start again.
//  4. Fields are atomic; plain ones would be data races.
//  5. A scan copies one leaf at a time, validates, and goes on at the separator behind that leaf.
//  6. Keys may be larger than a word. A search then validates each of them before it compares it (node.hpp).
//
// Invariants: (B1) to (B3) of tree.hpp. Entries of a leaf are in order, without gaps.
//
// Progress. All operations may wait: reads for the writer of a node on their way, updates also for the lock of a leaf. A
// thread holds locks for the change of at most three nodes.
//
// Linearization points
//   find, contains -> present      the read of the value, or of the key; the validation shows that the entry was there
//   find, contains -> absent       the validation of the leaf
//   insert, assign, erase, update  the first store to the leaf, whose lock is held. A reader that saw part of it fails
//   insert -> false, erase -> false  the validation, of the leaf or of the anchor
//   a visit of a scan              the read of the value
//
// Orderings: those of sync/optimistic_lock.hpp. The acquire of a value's load orders a reader after the writer of it.

namespace espalier {

template <class Key, class Value, class Traits = map_traits, class Compare = std::less<Key>,
          class Fanout = btree::fanout<31, 31>>
class olc_btree;

template <class Key, class Value, class Traits, class Compare, class Fanout>
class olc_btree
    : public btree::tree<
          olc_btree<Key, Value, Traits, Compare, Fanout>, Key, Value, completed_traits<Traits, btree_traits>,
          Compare, btree::sorted<Key, Fanout::leaf>::template leaf, Fanout::inner, btree::optimistic_access> {
  using base =
      btree::tree<olc_btree, Key, Value, completed_traits<Traits, btree_traits>, Compare,
                  btree::sorted<Key, Fanout::leaf>::template leaf, Fanout::inner, btree::optimistic_access>;
  friend base;
  using typename base::contract;
  friend contract;

 public:
  /// The same map with other entries, another order or other policies.
  template <class K, class V, class C = std::less<K>, class T = Traits>
  using rebind = olc_btree<K, V, T, C, Fanout>;
  /// The same map with nodes of another size.
  template <unsigned Leaf, unsigned Inner = btree::fanout<Leaf>::inner>
  using with_fanout = olc_btree<Key, Value, Traits, Compare, btree::fanout<Leaf, Inner>>;

  static constexpr map_properties properties = btree::properties_of(
      "olc_btree", "Leis, Haubenschild and Neumann, Optimistic Lock Coupling, IEEE Data Eng. Bull. 2019");

  /// Entries in a leaf, at most.
  static constexpr unsigned node_entries = Fanout::leaf;

  using base::base;
};

}  // namespace espalier
