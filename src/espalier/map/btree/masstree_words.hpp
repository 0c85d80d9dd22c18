#pragma once

#include <cstddef>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "espalier/map/btree/entry_operations.hpp"
#include "espalier/map/btree/masstree_layer.hpp"
#include "espalier/map/btree/masstree_node.hpp"
#include "espalier/map/btree/node.hpp"
#include "espalier/map/map_concept.hpp"
#include "espalier/map/node_layout.hpp"
#include "espalier/map/node_store.hpp"
#include "espalier/memory/placement_concept.hpp"
#include "espalier/sync/backoff.hpp"

// What masstree and htm_masstree share: their operations on keys that fit a word, which are one layer of Masstree
// (masstree.hpp).

namespace espalier::btree {

/// The operations of masstree and htm_masstree. Map::run(section) calls the section, in a way that suits the nodes'
/// Version, and returns its result.
template <class Map, class Key, class Value, class Traits, class Compare, class Fanout, class Version>
class masstree_of_words : public entry_operations<Map, Key, Value, Traits, Compare, Key, 2> {
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
  using layer = masstree_layer<Version, Key, word, Compare, no_links, Fanout, typename Traits::layout_type>;
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
          for_each_word(
              n, [&](word w) { visitor(static_cast<const void*>(w), sizeof(Value), memory_role::value); });
      } else {
        visitor(static_cast<const void*>(&n), sizeof(n), memory_role::node);
      }
    });
  }

  /// What is wrong with the structure, or null.
  [[nodiscard]] const char* check_invariants() const {
    if (top_.version.is_locked()) return "the anchor is locked";
    auto* const root = top_.root.held();
    return root == nullptr ? nullptr : layer::check(*root, top_, base::key_comp());
  }

 protected:
  using typename base::contract;
  friend contract;

  ~masstree_of_words() {
    if constexpr (store::template must_visit<border>() || holder::must_visit())
      layer::destroy_all(store_, top_.root.held(),
                         [this](const Key&, word w) { holder::discard(store_, w); });
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

  template <class Visit>
  static void for_each_word(const border& n, const Visit& visit) {
    const permutation order = n.order.held();
    for (unsigned rank = 0; rank < order.size(); ++rank) visit(n.word[order.slot(rank)].held());
  }

  // Readers take its version, which updates lock, and const maps are read.
  mutable typename layer::anchor top_;
};

}  // namespace espalier::btree
