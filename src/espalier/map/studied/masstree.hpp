#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <type_traits>
#include <vector>

#include "espalier/map/map_concept.hpp"
#include "espalier/map/map_traits.hpp"
#include "espalier/map/node_layout.hpp"
#include "espalier/map/node_store.hpp"
#include "espalier/map/studied/masstree_layer.hpp"
#include "espalier/map/studied/masstree_node.hpp"
#include "espalier/map/tree/entry_operations.hpp"
#include "espalier/map/tree/node.hpp"
#include "espalier/map/tree/tree.hpp"
#include "espalier/memory/placement_concept.hpp"
#include "espalier/sync/backoff.hpp"

// masstree: a B+tree whose readers take no lock and whose inserts disturb none.
// Mao, Kohler and Morris, "Cache Craftiness for Fast Multicore Key-Value Storage", EuroSys 2012.
//
// Essence. A border node keeps its entries in slots in any order; one word, the permutation, gives the order
// (masstree_node.hpp). An insert and an erase take effect by the store of that word, without a new version of the node.
// Nodes have separate counters for inserts and splits, so that a reader knows what has happened: nothing that concerns
// it, another child, or keys that went to the right (masstree_layer.hpp). All lines of a node are requested at once.
// A key fits a word. The paper's maps of strings are a trie of such trees, of which this map has one.
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

/// The operations of masstree and htm_masstree. Map::run(section) calls the section, in a way that suits the nodes'
/// Version, and returns its result.
template <class Map, class Key, class Value, class Traits, class Compare, class Fanout, class Version>
class masstree_operations : public entry_operations<Map, Key, Value, Traits, Compare, Key, 2> {
  static_assert(word_value<Key>,
                "keys move between nodes while others read them: a key must fit an atomic machine word");
  using base = entry_operations<Map, Key, Value, Traits, Compare, Key, 2>;
  friend base;
  using base::self;
  using base::store_;
  using typename base::change;
  using typename base::effect;
  using typename base::holder;
  using typename base::outcome;
  using typename base::store;
  using typename base::word;
  using layer = masstree_layer<Version, Key, word, Compare, Fanout>;
  using border = typename layer::border;
  using place = typename layer::place;

 public:
  using typename base::guard_type;

  static constexpr std::size_t node_bytes = sizeof(border);
  /// Entries in a leaf, at most.
  static constexpr unsigned node_entries = Fanout::leaf;

  using base::base;

  [[nodiscard]] static std::vector<node_type> node_types() {
    using interior = typename layer::interior;
    return {{memory_role::leaf, "border node", sizeof(border), border().members()},
            {memory_role::node, "interior node", sizeof(interior), interior().members()}};
  }

  // Quiescent only, for tests and inspection.

  /// Calls visitor(address, bytes, role) for every block that the map reaches.
  template <class Visitor>
  void visit_nodes(Visitor&& visitor) const {
    layer::visit_below(top_.root.held(), [&]<class Node>(const Node& n) {
      if constexpr (std::is_same_v<Node, border>) {
        visitor(static_cast<const void*>(&n), sizeof(n), memory_role::leaf);
        if constexpr (!holder::in_place)
          layer::for_each_word(
              n, [&](word w) { visitor(static_cast<const void*>(w), sizeof(Value), memory_role::value); });
      } else {
        visitor(static_cast<const void*>(&n), sizeof(n), memory_role::node);
      }
    });
  }

  /// What is wrong with the structure, or null.
  [[nodiscard]] const char* check_invariants() const { return layer::check(top_, base::key_comp()); }

 protected:
  using typename base::contract;
  friend contract;

  ~masstree_operations() {
    if constexpr (store::template must_visit<border>() || holder::must_visit())
      layer::destroy_all(store_, top_.root.held(), [this](word w) { holder::discard(store_, w); });
  }

 private:
  template <class Bound, class Visit>
  void do_scan(guard_type&, const Bound& bound, Visit&& visit) const {
    Bound from = bound;
    std::optional<Key> reached;  // what `from` refers to, after the first node
    const auto begin = [&] { return self().run([&]() noexcept { return copy_at(from); }); };
    for (typename layer::position p = begin(); p.at;) {
      for (unsigned i = 0; i < p.found.count; ++i) {
        const unsigned e = Bound::reverse ? p.found.count - 1 - i : i;
        if (from.admits(p.found.key[e]) && !visit(p.found.key[e], holder::read(p.found.slot[e]))) return;
      }
      if (!p.fence) return;
      reached = p.fence;
      from =
          Bound::reverse ? Bound::behind(base::key_comp(), *reached) : Bound::at(base::key_comp(), *reached);
      if (!Map::steps || !layer::template step<Bound>(p) || !layer::template copy<Bound>(p)) p = begin();
    }
  }

  /// The word of the key's value, or nothing.
  [[nodiscard]] std::optional<word> find_word(const Key& key) const {
    return self().run([&]() noexcept { return seek_word(key); });
  }
  [[nodiscard]] std::optional<word> seek_word(const Key& key) const noexcept {
    const Compare& less = base::key_comp();
    for (backoff pause;; pause.wait()) {
      place at = layer::seek(top_, layer::to(less, key));
      if (!at) return std::nullopt;
      do {
        const border_spot where = at.leaf->seek(less, key);
        std::optional<word> found;
        if (where.found) found = at.leaf->word[where.slot()].get();
        if (!at.changed()) return found;
      } while (layer::advance(at, less, key));
    }
  }

  /// What the node has in which a scan begins. The position is empty if the map is.
  template <class Bound>
  [[nodiscard]] typename layer::position copy_at(const Bound& from) const noexcept {
    typename layer::position p;
    for (backoff pause;; pause.wait()) {
      p.at = layer::seek(top_, layer::to_bound(base::key_comp(), from));
      if (!p.at || layer::template copy<Bound>(p)) return p;
    }
  }

  struct attempted {
    outcome done;
    typename layer::unlinked gone;
    typename layer::spare_list left;
  };

  /// Changes the entry of the key, after it has made room. Retires the nodes that an erase leaves empty.
  outcome apply(guard_type& guard, const Key& key, const change& wanted) {
    typename layer::template spare_nodes<store> spare(store_);
    while (true) {
      const attempted a = self().run([&]() noexcept { return attempt(key, wanted, spare.list); });
      spare.list = a.left;
      layer::retire(store_, guard, a.gone);
      if (a.done.what != effect::full) return a.done;
      spare.provide();
    }
  }

  /// The same, as far as spare nodes suffice.
  [[nodiscard]] attempted attempt(const Key& key, const change& wanted,
                                  const typename layer::spare_list& spare) noexcept {
    const Compare& less = base::key_comp();
    attempted result{{}, {}, spare};
    for (backoff pause;; pause.wait()) {
      place at;
      while (!(at = layer::seek(top_, layer::to(less, key)))) {
        if (!wanted.insert_where_absent) return result;
        if (layer::make_root(top_, result.left)) continue;
        result.done.what = effect::full;
        return result;
      }
      do {
        border_spot where = at.leaf->seek(less, key);
        // Without the lock where there is nothing to do.
        if (where.found ? wanted.present == change::where_present::keep : !wanted.insert_where_absent) {
          if (!at.changed()) return result;
          continue;
        }
        auto held = at.leaf->version.lock();
        if (held.changed_since(at.seen)) continue;
        if (at.leaf->order.held() != where.order) where = at.leaf->seek(less, key);
        if (change_entry(*at.leaf, held, where, key, wanted, result)) return result;
      } while (layer::advance(at, less, key));
    }
  }

  /// With the lock of the key's node. False if the node was split.
  bool change_entry(border& leaf, typename layer::guard& held, const border_spot& where, const Key& key,
                    const change& wanted, attempted& result) noexcept {
    outcome& done = result.done;
    if (!where.found) {
      if (!wanted.insert_where_absent) return true;
      if (leaf.is_full()) {
        if (layer::split(leaf, std::move(held), where, key, result.left)) return false;
        done.what = effect::full;
        return true;
      }
      leaf.insert(held, where, key, wanted.word);
      done.what = effect::inserted;
      return true;
    }
    done.before = leaf.word[where.slot()].held();
    if (!wanted.is_of(done.before)) return true;
    if (wanted.present == change::where_present::store) {
      leaf.word[where.slot()].set(wanted.word);
      done.what = effect::stored;
    } else if (wanted.present == change::where_present::erase) {
      leaf.erase(where);
      done.what = effect::erased;
      if (leaf.order.held().size() == 0) result.gone = layer::unlink(leaf, std::move(held));
    }
    return true;
  }

  // Readers take its version, which updates lock, and const maps are read.
  mutable typename layer::anchor top_;
};

}  // namespace btree

template <class Key, class Value, class Traits = map_traits, class Compare = std::less<Key>,
          class Fanout = btree::fanout<15, 16>>
class masstree : public btree::masstree_operations<masstree<Key, Value, Traits, Compare, Fanout>, Key, Value,
                                                   completed_traits<Traits, btree_traits>, Compare, Fanout,
                                                   btree::node_version> {
  using base = btree::masstree_operations<masstree, Key, Value, completed_traits<Traits, btree_traits>,
                                          Compare, Fanout, btree::node_version>;
  friend base;

 public:
  /// The same map with other entries, another order or other policies.
  template <class K, class V, class C = std::less<K>, class T = Traits>
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
