#pragma once

#include <cstddef>
#include <functional>
#include <optional>

#include "espalier/map/btree/coupled_tree.hpp"
#include "espalier/map/btree/node.hpp"
#include "espalier/map/map_concept.hpp"
#include "espalier/map/map_traits.hpp"
#include "espalier/sync/backoff.hpp"

// olc_btree: a B+tree with optimistic lock coupling.
// Leis, Haubenschild and Neumann, "Optimistic Lock Coupling: A Scalable and Efficient General-Purpose Synchronization
// Method", IEEE Data Engineering Bulletin 42(1), 2019.
//
// Essence. Each node has a lock with a version. A reader descends without locks and validates versions (coupled_tree.hpp
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
//
// Invariants: (B1) to (B3) of coupled_tree.hpp. Entries of a leaf are in order, without gaps.
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

/// The default policies: nodes begin at cache lines.
using btree_traits = plain_traits::with_layout<line_layout>;

template <class Key, class Value, class Traits = map_traits, class Compare = std::less<Key>,
          class Fanout = btree::fanout<31, 31>>
class olc_btree;

namespace btree {
/// What olc_btree passes to coupled_tree.
template <class Key, unsigned Capacity>
struct sorted {
  template <class Word>
  using leaf = sorted_leaf<Key, Word, Capacity>;
};
}  // namespace btree

template <class Key, class Value, class Traits, class Compare, class Fanout>
class olc_btree : public btree::coupled_tree<olc_btree<Key, Value, Traits, Compare, Fanout>, Key, Value,
                                             completed_traits<Traits, btree_traits>, Compare,
                                             btree::sorted<Key, Fanout::leaf>::template leaf, Fanout::inner> {
  using base = btree::coupled_tree<olc_btree, Key, Value, completed_traits<Traits, btree_traits>, Compare,
                                   btree::sorted<Key, Fanout::leaf>::template leaf, Fanout::inner>;
  friend base;
  using base::seek;
  using base::store_;
  using typename base::holder;
  using typename base::leaf;
  using typename base::place;
  using typename base::word;
  using change = btree::entry_change<word>;
  using outcome = btree::entry_outcome<word>;
  using effect = typename outcome::effect;

 public:
  using typename base::guard_type;

  /// The same map with other entries, another order or other policies.
  template <class K, class V, class C = std::less<K>, class T = Traits>
  using rebind = olc_btree<K, V, T, C, Fanout>;
  /// The same map with nodes of another size.
  template <unsigned Leaf, unsigned Inner = Leaf>
  using with_fanout = olc_btree<Key, Value, Traits, Compare, btree::fanout<Leaf, Inner>>;

  static constexpr map_properties properties{
      .name = "olc_btree",
      .find_progress = progress::blocking,
      .update_progress = progress::blocking,
      .shape = balance::strict,
      .scan = scan_guarantee::per_key,
      .region_protection = true,
      .paper = "Leis, Haubenschild and Neumann, Optimistic Lock Coupling, IEEE Data Eng. Bull. 2019",
      .exchanges = true,
      .bidirectional = true};

  static constexpr std::size_t node_bytes = sizeof(leaf);
  /// Entries in a leaf, at most.
  static constexpr unsigned node_entries = Fanout::leaf;

  using base::base;
  /// No other thread may use the map any more.
  ~olc_btree() { base::destroy_all(); }

 private:
  using typename base::contract;
  friend contract;

  [[nodiscard]] std::optional<Value> do_find(guard_type&, const Key& key) const {
    const auto found = seek_word(key);
    if (!found) return std::nullopt;
    return holder::read(*found);
  }
  [[nodiscard]] bool do_contains(guard_type&, const Key& key) const { return seek_word(key).has_value(); }

  bool do_insert(guard_type&, const Key& key, const Value& value) {
    typename holder::pending fresh(store_);
    if (!holder::in_place && seek_word(key)) return false;
    const outcome done = apply(key, {.insert_where_absent = true, .word = fresh.get(value)});
    if (done.what != effect::inserted) return false;
    fresh.release();
    return true;
  }

  bool do_assign(guard_type& guard, const Key& key, const Value& value) {
    typename holder::pending fresh(store_);
    guard.reserve(holder::retirements);
    const outcome done = apply(
        key,
        {.present = change::where_present::store, .insert_where_absent = true, .word = fresh.get(value)});
    fresh.release();
    if (done.what == effect::inserted) return true;
    holder::retire(store_, guard, done.before);
    return false;
  }

  bool do_erase(guard_type& guard, const Key& key) {
    guard.reserve(holder::retirements + base::merged_most);
    const outcome done = apply(key, {.present = change::where_present::erase});
    if (done.what != effect::erased) return false;
    holder::retire(store_, guard, done.before);
    tidy(guard, key, done);
    return true;
  }

  template <class Function>
  std::optional<Value> do_update(guard_type& guard, const Key& key, Function&& f) {
    typename holder::pending fresh(store_);
    guard.reserve(holder::retirements + base::merged_most);
    while (true) {
      const auto now = seek_word(key);
      const std::optional<Value> before = now ? std::optional(holder::read(*now)) : std::nullopt;
      const std::optional<Value> after = f(before);
      if (!now && !after) return before;
      change wanted{.insert_where_absent = !now, .expected = now};
      if (after) wanted.word = fresh.get(*after);
      if (now) wanted.present = after ? change::where_present::store : change::where_present::erase;
      const outcome done = apply(key, wanted);
      if (done.what == effect::none) continue;
      if (after) fresh.release();
      if (now) holder::retire(store_, guard, *now);
      if (done.what == effect::erased) tidy(guard, key, done);
      return before;
    }
  }

  /// The word of the key's value, or nothing.
  [[nodiscard]] std::optional<word> seek_word(const Key& key) const {
    for (backoff pause;; pause.wait()) {
      const place at = seek(key);
      if (at.node == nullptr) return std::nullopt;
      const auto found = at.as_leaf().find(at.here, base::key_comp(), key);
      if (at.here.validate()) return found;
    }
  }

  /// Changes the entry of the key with the lock of its leaf, for which it makes room.
  outcome apply(const Key& key, const change& wanted) {
    for (backoff pause;; pause.wait()) {
      const place at = seek(key);
      if (at.node == nullptr) {
        if (!wanted.insert_where_absent) return {};
        base::make_root(at.here);
        continue;
      }
      leaf& of_key = at.as_leaf();
      const auto where = of_key.seek(at.here, base::key_comp(), key);
      // Without the lock where there is nothing to do.
      if (where.found ? wanted.present == change::where_present::keep : !wanted.insert_where_absent) {
        if (at.here.validate()) return {};
        continue;
      }
      auto held = at.here.upgrade();
      if (!held) continue;
      const outcome done = of_key.apply(held, where, key, wanted);
      if (done.what == effect::inserted || done.what == effect::erased) return done;
      held.release_unchanged();
      if (done.what != effect::full) return done;
      base::make_room(key);
    }
  }

  /// After an erase.
  void tidy(guard_type& guard, const Key& key, const outcome& done) noexcept {
    if (done.left == leaf::sparse || done.left == 0) base::merge_sparse(guard, key);
  }
};

}  // namespace espalier
