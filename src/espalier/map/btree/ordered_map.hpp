#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>

#include "espalier/map/btree/access.hpp"
#include "espalier/map/btree/hashed_leaf.hpp"
#include "espalier/map/btree/tree.hpp"
#include "espalier/map/map_concept.hpp"
#include "espalier/map/map_traits.hpp"

// ordered_map: a B+tree whose leaves are hash tables.
//
// Essence. A search in a large map waits for memory. It reads inner nodes that stay in the caches, since leaves have 256
// entries, and two lines of a leaf, which it requests together (hashed_leaf.hpp). Inner nodes compare all their keys at
// once, by the vectors of the processor. find_batch() lets the searches of 32 keys wait together. tree.hpp has the
// protocol, splits and merges: optimistic lock coupling, as in olc_btree.hpp.
//
// Invariants: (B1) to (B3) of tree.hpp, (H1) and (H2) of hashed_leaf.hpp.
//
// Progress. All operations may wait: reads for the writer of a node on their way, updates also for the lock of a leaf. A
// thread holds locks for the change of at most three nodes.
//
// Linearization points
//   find, contains -> present      the read of the value; the validation shows that the entry was there
//   find, contains -> absent       the read of the bits that say which slots of the home group, or of the last group
//                                  behind it, are used; the validation shows that the leaf had the key's range
//   insert -> true                 the store of the bit
//   erase -> true                  the store of the bit, with the lock held; readers that began before do not validate
//   assign, update                 the store of the value
//   insert -> false, erase -> false  as find
//   a visit of a scan              the read of the value
//
// Orderings: those of sync/optimistic_lock.hpp.

namespace espalier {

template <class Key, class Value, class Traits = map_traits, class Compare = std::less<Key>,
          class Fanout = btree::fanout<256, 64>>
class ordered_map;

namespace btree {
template <class Key, class Compare, unsigned Capacity>
struct hashed {
  template <class Word>
  using leaf = hashed_leaf<Key, Word, Capacity, Compare>;
};
}  // namespace btree

template <class Key, class Value, class Traits, class Compare, class Fanout>
class ordered_map : public btree::tree<ordered_map<Key, Value, Traits, Compare, Fanout>, Key, Value,
                                       completed_traits<Traits, btree_traits>, Compare,
                                       btree::hashed<Key, Compare, Fanout::leaf>::template leaf,
                                       Fanout::inner, btree::optimistic_access> {
  using base = btree::tree<ordered_map, Key, Value, completed_traits<Traits, btree_traits>, Compare,
                           btree::hashed<Key, Compare, Fanout::leaf>::template leaf, Fanout::inner,
                           btree::optimistic_access>;
  friend base;
  using typename base::contract;
  friend contract;

 public:
  /// The same map with other entries, another order or other policies.
  template <class K, class V, class C = std::less<K>, class T = Traits>
  using rebind = ordered_map<K, V, T, C, Fanout>;
  /// The same map with nodes of another size.
  template <unsigned Leaf, unsigned Inner = btree::fanout<Leaf>::inner>
  using with_fanout = ordered_map<Key, Value, Traits, Compare, btree::fanout<Leaf, Inner>>;

  static constexpr map_properties properties = btree::properties_of(
      "ordered_map", "Leis, Haubenschild and Neumann, Optimistic Lock Coupling, IEEE Data Eng. Bull. 2019");
  /// Entries in a leaf, at most.
  static constexpr unsigned node_entries = Fanout::leaf;

  using base::base;

 private:
  /// Searches that wait together.
  static constexpr std::size_t batch = 32;
  using typename base::holder;
  using typename base::word;

  std::size_t do_find_batch(typename base::guard_type&, std::span<const Key> keys,
                            std::span<std::optional<Value>> results) const {
    std::array<std::optional<word>, batch> found;
    std::size_t present = 0;
    for (std::size_t from = 0; from < keys.size(); from += batch) {
      const auto some = keys.subspan(from, std::min(batch, keys.size() - from));
      this->find_words(some, found);
      for (std::size_t i = 0; i < some.size(); ++i) {
        results[from + i] = found[i] ? std::optional<Value>(holder::read(*found[i])) : std::nullopt;
        if (found[i]) ++present;
      }
    }
    return present;
  }
};

}  // namespace espalier
