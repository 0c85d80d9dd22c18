#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>

#include "espalier/hw/cache_line.hpp"
#include "espalier/map/bst/bst_traits.hpp"
#include "espalier/map/bst/edge_int_lf_node.hpp"
#include "espalier/map/bst/internal_map.hpp"
#include "espalier/map/bst/tree_at_rest.hpp"
#include "espalier/map/map_concept.hpp"
#include "espalier/map/map_traits.hpp"
#include "espalier/map/node_store.hpp"
#include "espalier/map/scan.hpp"
#include "espalier/map/tagged_ptr.hpp"
#include "espalier/memory/clustered.hpp"
#include "espalier/sync/backoff.hpp"

// edge_int_lf: lock-free internal binary search tree whose edges carry the marks.
// Ramachandran and Mittal, "A Fast Lock-Free Internal Binary Search Tree", ICDCN 2015.
//
// Essence. An erase announces itself by INTENT on the edge to its node, the target, and freezes the target's own edges
// with DELETE, the left one first. A target with at most one child is simple: the edge above swings to that child.
// Otherwise the smallest node on its right is its successor. The successor's edges are frozen with PROMOTE, the left
// one first, which also gets the target's address for helpers. Then the successor's entry moves up into the target, the
// successor's node is unlinked, and a clean copy takes the target's place. The first flag on a node's left edge decides
// for ever which of the two roles it has. Any thread that meets a flag can do the rest.
//
// Deviations from the paper:
//  1. Keys are never overwritten. The target's entry word is changed to point to the successor's node. That alone is
//     the promotion, and replaces both the key and the mark in it. Key and value change in one step, a key may be of
//     any type, and it needs no bit. The target routes by its old key until the copy is there. Searches may go wrong
//     below it meanwhile; its frozen edge tells them, as it must in any case.
//  2. Values lie in cells that move with their keys, since copying a value from node to node would lose assignments.
//     The successor's entry is sealed before it moves. An assignment that finds it sealed helps instead of waiting.
//     (In setbench's port the copy begins with a value of 0.)
//  3. Null edges carry stamps (tagged_ptr.hpp). In the paper a null edge keeps the address of the node that was
//     there. If memory is reused, the same word can return. A delayed insert then hangs its key into a range that
//     belongs to other keys by now.
//  4. Memory is reclaimed (below); the paper and its code leak nodes and the records of every help.
//  5. No sentinel keys. The tree hangs on root_, an edge that no node holds and that only INTENT marks. A search that
//     never turned right has no anchor, and no key can have moved up past it.
//  6. Where the authors' search meets the same frozen anchor twice, it ends with the first round's result: its last
//     node, which is not a match. Here the result is that the key is absent. Updates do not search again; they help.
//  7. readyToReplace is a bit of the entry word: 32 bytes, not 40. Helpers hold their state on the stack; in the
//     authors' code each help allocates and leaks a record. (Their compare-and-swap without TBB returns nothing, and
//     their keys have 31 bits.)
//
// Invariants. An edge with DELETE or PROMOTE never changes again, with one exception: where the successor hangs on the
// target's right edge, this edge passes to what is below the successor. An edge with INTENT changes only when the node
// below is detached, and the node that holds the edge stays linked until then. No edge has INTENT and a freezing flag.
// A target has one successor for ever. A promoted entry never changes but for its bit `ready`, a sealed one never.
// While a promoted target is linked its old key is nowhere in the tree: an insert of this key meets the target.
//
// Misses. Let the anchor be the last node at which a search for an absent key turned right. The search can miss the key
// only if the key moves up past it: into the anchor (the key is then the successor's, the smallest on the anchor's
// right), or into a node above after the anchor itself was unlinked. Both begin with a frozen right edge of the anchor.
// So a miss holds if that edge is free of DELETE and PROMOTE afterwards. If not, there are two cases. Either the
// anchor's entry shows the key, which is thus found. Or a second search meets the same anchor. This shows that the
// anchor was linked when the first search ended, and that the key had not moved into it: the first miss holds.
//
// Progress: every operation is lock-free. find, contains and scan write nothing shared and never help. They retry only
// where an update has made progress, or once. A retry of an update means that another one made progress. One
// exception: an erase that has announced itself must not fail. It has allocated the copy before, which only a target
// with two children needs. If memory runs out for helping another erase in its way, it waits for the owner of that
// erase.
//
// Reclamation. A target is detached by one CAS on the edge above. The winner retires it, together with the successor
// where there is one. (I1) A promoted target leads to its successor, which is therefore reachable as long as the target
// is; no other linked node leads to either. (I2) One winner. (I3) A CAS that succeeds writes new nodes, or what hangs
// on a frozen edge of a node still linked, which is linked too. A cell is retired by the winner of the assignment or of
// the promotion that replaces it. A simple target's cell is reclaimed with the node; a sealed one belongs to the copy.
//
// Linearization points
//   insert, insert_or_assign -> true     publish: its CAS
//   insert -> false                      the read of the entry
//   insert_or_assign -> false            the CAS on the entry
//   erase -> true                        simple: the CAS of unlink_simple; else promote; by whichever thread
//   find, contains -> present            the read of the entry; if the node was detached by then, node_store.hpp
//                                        has the argument; if the entry is final, any moment when it was linked
//   erase -> false, find, contains       the read of the empty edge, or of a promoted entry with another key
//
// Orderings
//   (1) publish, unlink_simple, unlink, replace (release) -> read_edge (acquire): a thread that reaches a node sees it
//       constructed, with its first entry.
//   (2) unlink (release) -> read_edge (acquire): the unlinking thread has seen the target's right edge frozen and its
//       entry promoted. So a search that misses the key that moved then sees the frozen edge, and the key if its anchor
//       is the target; and a second search does not meet an anchor that was detached before. A helper that sees the
//       target's right edge empty sees the target promoted.
//   (3) freeze, choose (release) -> read_edge, check_anchor (acquire): a thread that sees the successor chosen sees the
//       target's edges frozen, as (2) requires. check_anchor follows read_edge: for it (2) would suffice.
//   (4) seal, promote, mark_ready (release) -> read_entry (acquire): a thread that sees a promoted entry sees the
//       successor constructed and its entry sealed, so that its cell is final.
//   (5) assign (release) -> read_entry (acquire): a cell is seen constructed, and what its writer did before.
//   (6) mark_ready (release) -> read_entry (acquire): a thread that sees `ready` sees the target's edges without the
//       successor. The copy takes these.
//   (7) announce (acq_rel) -> read_edge (acquire): more than the proofs need. It publishes only itself, and as a
//       read-modify-write it continues the release sequence of (1).

namespace espalier {

/// The default policies.
using edge_int_lf_traits = plain_traits::with_placement<clustered>;

template <class Key, class Value, class Traits = map_traits, class Compare = std::less<Key>>
class edge_int_lf : public internal_map<edge_int_lf<Key, Value, Traits, Compare>, Key, Value,
                                        completed_traits<Traits, edge_int_lf_traits>, Compare, true> {
  using base =
      internal_map<edge_int_lf, Key, Value, completed_traits<Traits, edge_int_lf_traits>, Compare, true>;
  using traits = typename base::traits_type;
  friend base;
  using base::store_;
  using typename base::holder;
  using typename base::store;

  static constexpr std::uintptr_t promote_flag = 1;
  static constexpr std::uintptr_t delete_flag = 2;
  static constexpr std::uintptr_t intent_flag = 4;
  static constexpr std::uintptr_t frozen = promote_flag | delete_flag;

  using nodes = edge_int_lf_nodes<Key, Value, typename traits::layout_type>;
  using node = typename nodes::node;
  using edge_word = typename nodes::edge_word;
  using edge = typename nodes::edge;
  using entry_word = typename nodes::entry_word;

 public:
  using typename base::guard_type;

  /// The same map with other entries, another order or other policies.
  template <class K, class V, class C = std::less<K>, class T = Traits>
  using rebind = edge_int_lf<K, V, T, C>;

  static constexpr map_properties properties{
      "edge_int_lf",
      progress::lock_free,
      progress::lock_free,
      balance::none,
      true,
      "Ramachandran and Mittal, A Fast Lock-Free Internal Binary Search Tree, ICDCN 2015"};

  static constexpr std::size_t node_bytes = sizeof(node);
  static constexpr auto node_members = nodes::members;

  using base::base;
  /// No other thread may use the map any more.
  ~edge_int_lf() { base::destroy_all(top()); }

 private:
  using typename base::contract;
  friend contract;

  [[nodiscard]] std::optional<Value> do_find(guard_type&, const Key& key) const {
    const Value* const cell = find_cell(key);
    if (cell == nullptr) return std::nullopt;
    return *cell;
  }

  [[nodiscard]] bool do_contains(guard_type&, const Key& key) const { return find_cell(key) != nullptr; }

  bool do_insert(guard_type& guard, const Key& key, const Value& value) {
    typename holder::pending cell(store_);
    return add(guard, key, value, cell, [](node&, entry_word) { return true; });
  }

  bool do_assign(guard_type& guard, const Key& key, const Value& value) {
    typename holder::pending cell(store_);
    return add(guard, key, value, cell, [&](node& n, entry_word seen) {
      guard.reserve(holder::retirements);
      const entry_word fresh(cell.get(value));
      while (!seen.is_final()) {
        // LP: assign. order (5): assign, acq_rel
        if (n.entry.compare_exchange_weak(seen, fresh, std::memory_order_acq_rel,
                                          std::memory_order_acquire)) {
          cell.release();
          holder::retire(store_, guard, seen.cell());
          return true;
        }
      }
      return false;
    });
  }

  bool do_erase(guard_type& guard, const Key& key) {
    erase_context context(store_, guard);
    for (backoff pause;; pause.wait()) {
      place at = seek(key);
      if (at.seen.is_null()) {
        if (confirms_absence(context, at)) return false;
        continue;
      }
      node& n = *at.seen.get();
      if (at.seen.flags() == 0) {  // then the node is not promoted: the edge to a target has INTENT
        context.prepare(n);
        const edge_word mine = at.seen.with(intent_flag);
        // order (7): announce, acq_rel
        if (at.edge_to->compare_exchange_strong(at.seen, mine, std::memory_order_acq_rel,
                                                std::memory_order_acquire)) {
          context.own = &n;
          await_detached(context, {at.edge_to, &n}, mine);
          context.own = nullptr;
          // Any thread may have detached it; the erase is this one's, unless the node was unlinked as a successor
          // and its key is further up now. The flag that decided precedes the CAS that detached.
          // order (3): read_edge, acquire
          if (!n.child[0].load(std::memory_order_acquire).has(promote_flag)) return true;
          continue;
        }
      }
      help(context, at);
    }
  }

 public:
  // Quiescent only, for tests and inspection.

  /// What is wrong with the structure, or null.
  // order (1): read_edge, acquire: more than needed at rest; so are the loads below.
  [[nodiscard]] const char* check_invariants() const {
    if (root_.load(std::memory_order_acquire).flags() != 0) return "a mark was left on the root edge";
    return tree_at_rest::check_internal(
        base::key_comp(), static_cast<const node*>(top()), [](const node& n) -> const char* {
          // order (1): read_edge, acquire. order (5): read_entry, acquire
          for (const edge& e : n.child) {
            if (e.load(std::memory_order_acquire).flags() != 0) return "a mark was left on an edge";
          }
          return n.entry.load(std::memory_order_acquire).is_final() ? "a reachable entry is final" : nullptr;
        });
  }

 private:
  /// Where the seek of an update ended.
  struct place {
    edge* edge_to;    // the edge to the node with the key, or the empty one where it would be
    edge_word seen;   // the word read from it
    node* parent;     // the node that holds it; null for root_
    edge* to_parent;  // the edge to that node
    node* anchor;     // where the seek last turned right, or null
    edge* to_anchor;  // the edge to it
  };

  /// The same for readers.
  struct read_place {
    edge_word seen;
    const node* anchor;
  };

  /// A node that is being erased, or to which a flagged edge leads; null where there is nothing to do.
  struct target {
    edge* edge_to = nullptr;
    node* victim = nullptr;
  };

  /// The node with the smallest key on the right of another node.
  struct leftmost {
    edge* edge_to;
    node* smallest;   // null where there is nothing on the right
    edge_word left;   // its left edge, null
    edge* to_parent;  // the edge to the node that holds edge_to
    node* parent;     // that node
  };

  using unpublished_node = unpublished<store, node>;

  /// Resources that complete an erase. An erase prepares for its own target before it announces itself. From then on it
  /// may not throw: it reserves for its own target what it has, and helps others if there is more.
  class erase_context {
   public:
    erase_context(store& s, guard_type& g) noexcept
        : guard(g), own_copy_(s, memory_role::node), other_copy_(s, memory_role::node) {}

    /// Before the erase of this node is announced. Throws std::bad_alloc.
    void prepare(const node& n) {
      guard.reserve(per_target);
      provide(own_copy_, n);
    }
    /// Whether there is room to retire the nodes that this target's erase detaches.
    bool can_retire(const node& n) {
      return own == &n || attempt([&] { guard.reserve(own == nullptr ? per_target : 2 * per_target); });
    }
    /// A node to replace this target by, or null.
    unpublished_node* copy_for(const node& n) {
      unpublished_node& copy = own == &n ? own_copy_ : other_copy_;
      return attempt([&] { provide(copy, n); }) ? &copy : nullptr;
    }

    guard_type& guard;
    const node* own = nullptr;

   private:
    static constexpr std::size_t per_target = 2;  // a cell; and the nodes, which are one entry

    static void provide(unpublished_node& copy, const node& n) {
      if (copy.get() == nullptr) copy.emplace(&n, n.key, entry_word(), edge_word());
    }
    template <class Action>
    bool attempt(Action&& action) {
      try {
        action();
        return true;
      } catch (const std::bad_alloc&) {
        if (own == nullptr) throw;
        return false;
      }
    }

    unpublished_node own_copy_;
    unpublished_node other_copy_;
  };

  // order (1): read_edge, acquire
  [[nodiscard]] node* top() const noexcept { return root_.load(std::memory_order_acquire).get(); }

  // Searches.

  [[nodiscard]] read_place seek_for_read(const Key& key) const {
    const Key sought = key;  // the caller's would be read again after each acquire load
    // order (1), (2): read_edge, acquire
    read_place end{root_.load(std::memory_order_acquire), nullptr};
    while (!end.seen.is_null()) {
      const node& n = *end.seen.get();
      const bool right = base::less(n.key, sought);
      if (!right && !base::less(sought, n.key)) break;
      if (right) end.anchor = &n;
      // order (1), (2): read_edge, acquire
      end.seen = n.child[right ? 1 : 0].load(std::memory_order_acquire);
    }
    return end;
  }

  [[nodiscard]] place seek(const Key& key) const {
    // order (1), (2): read_edge, acquire
    place at{&root_, root_.load(std::memory_order_acquire), nullptr, nullptr, nullptr, nullptr};
    while (!at.seen.is_null()) {
      node& n = *at.seen.get();
      const bool right = base::less(n.key, key);
      if (!right && !base::less(key, n.key)) break;
      if (right) {
        at.anchor = &n;
        at.to_anchor = at.edge_to;
      }
      at.to_parent = at.edge_to;
      at.parent = &n;
      at.edge_to = &n.child[right ? 1 : 0];
      at.seen = at.edge_to->load(std::memory_order_acquire);  // order (1), (2): read_edge, acquire
    }
    return at;
  }

  /// After a search has ended at an empty edge: whether no key can have moved past it.
  static bool is_steady(const node* anchor) noexcept {
    // order (3): check_anchor, acquire: after read_edge.
    return anchor == nullptr || !anchor->child[1].load(std::memory_order_acquire).has(frozen);
  }

  /// The cell of the key's value, or null.
  [[nodiscard]] const Value* find_cell(const Key& key) const {
    const node* suspect = nullptr;
    while (true) {
      const auto end = [&] {
        if constexpr (traits::layout_type::shape == node_shape::compact)
          return seek_for_read(key);
        else
          return seek(key);
      }();
      if (!end.seen.is_null()) {
        // order (4), (5): read_entry, acquire
        const entry_word e = end.seen.get()->entry.load(std::memory_order_acquire);
        return e.has(entry_word::promoted) ? nullptr : e.cell();
      }
      if (is_steady(end.anchor)) return nullptr;
      // order (4), (5): read_entry, acquire: of both loads.
      const entry_word e = end.anchor->entry.load(std::memory_order_acquire);
      if (e.has(entry_word::promoted) && base::equal(e.successor()->key, key))
        return e.successor()->entry.load(std::memory_order_acquire).cell();
      if (end.anchor == suspect) return nullptr;
      suspect = end.anchor;
    }
  }

  /// The entry with the smallest key that the bound admits. A search for an absent key just behind the bound gives it:
  /// it is in the last node at which this search turned left.
  [[nodiscard]] std::optional<map_entry<Key, Value>> first_of(const scan_bound<Key, Compare>& bound) const {
    const node* suspect = nullptr;
    const node* suspected = nullptr;
    while (true) {
      const node* anchor = nullptr;
      const node* best = nullptr;
      // order (1), (2): read_edge, acquire
      edge_word next = root_.load(std::memory_order_acquire);
      while (!next.is_null()) {
        const node& n = *next.get();
        const bool right = !bound.admits(n.key);
        (right ? anchor : best) = &n;
        // order (1), (2): read_edge, acquire
        next = n.child[right ? 1 : 0].load(std::memory_order_acquire);
      }
      if (is_steady(anchor)) return entry_at(best);
      const entry_word e = anchor->entry.load(std::memory_order_acquire);  // order (4): read_entry, acquire
      if (e.has(entry_word::promoted) && bound.admits(e.successor()->key)) return entry_at(e.successor());
      if (anchor == suspect) return entry_at(suspected);
      suspect = anchor;
      suspected = best;
    }
  }

  [[nodiscard]] static std::optional<map_entry<Key, Value>> entry_at(const node* n) {
    if (n == nullptr) return std::nullopt;
    // order (4), (5): read_entry, acquire: of both loads.
    entry_word e = n->entry.load(std::memory_order_acquire);
    if (e.has(entry_word::promoted)) {  // the next larger key, and the next that is present
      n = e.successor();
      e = n->entry.load(std::memory_order_acquire);
    }
    return map_entry<Key, Value>{n->key, *e.cell()};
  }

  // Updates.

  /// Where the key is present, present(node, entry) says whether the operation is done.
  template <class Present>
  bool add(guard_type& guard, const Key& key, const Value& value, typename holder::pending& cell,
           Present&& present) {
    erase_context context(store_, guard);
    unpublished_node fresh(store_, memory_role::node);
    for (backoff pause;; pause.wait()) {
      place at = seek(key);
      if (!at.seen.is_null()) {
        node& n = *at.seen.get();
        const entry_word e = n.entry.load(std::memory_order_acquire);  // order (4), (5): read_entry, acquire
        if (!e.has(entry_word::promoted) && present(n, e)) return false;
        finish(context, {at.edge_to, &n});  // the entry is final: the node is being unlinked
        continue;
      }
      if (!confirms_absence(context, at)) continue;
      if (at.seen.flags() == 0) {
        const entry_word e(cell.get(value));
        if (fresh.get() == nullptr) fresh.emplace(at.parent, key, e, edge_word());
        node* const n = fresh.get();
        // relaxed: published by the CAS below.
        for (edge& empty : n->child)
          empty.store(edge_word::null(at.seen.stamp() + 1), std::memory_order_relaxed);
        // LP: insert(true) is this CAS when it succeeds. order (1): publish, acq_rel
        if (at.edge_to->compare_exchange_strong(at.seen, edge_word(n), std::memory_order_acq_rel,
                                                std::memory_order_acquire)) {
          fresh.release();
          cell.release();
          return true;
        }
      }
      help(context, at);
    }
  }

  /// Whether an update may rely on the key's absence; if not, it helps to erase the anchor.
  bool confirms_absence(erase_context& context, const place& at) {
    if (is_steady(at.anchor)) return true;
    finish(context, {at.to_anchor, at.anchor});
    return false;
  }

  /// Helps the erase that has marked the edge at which an update ended.
  void help(erase_context& context, const place& at) {
    // order (1), (3), (7): read_edge, acquire
    const edge_word now = at.edge_to->load(std::memory_order_acquire);
    if (now.has(intent_flag))
      finish(context, {at.edge_to, now.get()});
    else if (now.has(frozen))
      finish(context, {at.to_parent, at.parent});
  }

  /// Returns when the node whose erase this thread has announced is out of the tree. The edge to it changes then and
  /// not before.
  void await_detached(erase_context& context, target own, edge_word announced) {
    for (backoff pause;; pause.wait()) {
      finish(context, own);
      // order (1), (2): read_edge, acquire
      if (own.edge_to->load(std::memory_order_acquire) != announced) return;
    }
  }

  // Helping. A step that finds another target in its way returns that target, and the thread works on it instead of its
  // own: the caller retries anyway.

  void finish(erase_context& context, target t) {
    while (t.victim != nullptr) t = advance(context, t);
  }

  /// The node is a target or a successor, or will be one of them because the edge to it has INTENT.
  target advance(erase_context& context, target t) {
    node& v = *t.victim;
    for (edge& e : v.child) {
      edge_word w = e.load(std::memory_order_acquire);  // order (1), (3): read_edge, acquire
      while (!w.has(frozen)) {
        if (w.has(intent_flag)) return {&e, w.get()};
        // order (3): freeze, acq_rel. order (1), (3): read_edge, acquire, where it fails.
        if (e.compare_exchange_weak(w, w.with(delete_flag), std::memory_order_acq_rel,
                                    std::memory_order_acquire))
          break;
      }
      if (w.has(promote_flag)) return relocate(context, *w.null_node());  // the left one, which is first
    }
    if (!context.can_retire(v)) return {};
    // Edges before the entry: the right one can become empty, but only after the promotion.
    // order (1), (2): read_edge, acquire. order (4): read_entry, acquire
    const edge_word left = v.child[0].load(std::memory_order_acquire);
    const edge_word right = v.child[1].load(std::memory_order_acquire);
    const bool promoted = v.entry.load(std::memory_order_acquire).has(entry_word::promoted);
    if (!promoted && (left.is_null() || right.is_null())) {
      unlink_simple(context, t, left, right);
      return {};
    }
    const target obstacle = relocate(context, v);
    if (obstacle.victim == nullptr) replace(context, t);
    return obstacle;
  }

  /// The edge that replaces a node with these frozen edges, one of them null.
  static edge_word replacement_edge(edge_word left, edge_word right) noexcept {
    if (!left.is_null()) return edge_word(left.get());
    if (!right.is_null()) return edge_word(right.get());
    return edge_word::null(std::max(left.stamp(), right.stamp()) + 1);
  }

  /// Unlinks a simple target.
  void unlink_simple(erase_context& context, target t, edge_word left, edge_word right) noexcept {
    edge_word expected(t.victim, intent_flag);
    // LP: erase(true). order (1): unlink_simple, acq_rel. relaxed at a failure: the word read is not used.
    if (t.edge_to->compare_exchange_strong(expected, replacement_edge(left, right), std::memory_order_acq_rel,
                                           std::memory_order_relaxed))
      base::retire_node(context.guard, t.victim);
  }

  /// Puts a copy, with its successor's key, in the place of a target whose successor is unlinked.
  void replace(erase_context& context, target t) {
    edge_word expected(t.victim, intent_flag);
    // order (1): read_edge, acquire
    if (t.edge_to->load(std::memory_order_acquire) != expected) return;
    node& v = *t.victim;
    const entry_word e = v.entry.load(std::memory_order_acquire);  // order (4), (6): read_entry, acquire
    unpublished_node* const copy = e.has(entry_word::ready) ? context.copy_for(v) : nullptr;
    if (copy == nullptr) return;
    node* const successor = e.successor();
    node& c = *copy->get();
    c.key = successor->key;
    // order (4), (5): read_entry, acquire. relaxed: published by the CAS below.
    c.entry.store(entry_word(successor->entry.load(std::memory_order_acquire).cell()),
                  std::memory_order_relaxed);
    for (std::size_t s = 0; s < 2; ++s) {
      // order (1): read_edge, acquire. relaxed: published by the CAS below.
      const edge_word w = v.child[s].load(std::memory_order_acquire);
      c.child[s].store(w.is_null() ? edge_word::null(w.stamp()) : edge_word(w.get()),
                       std::memory_order_relaxed);
    }
    // order (1): replace, acq_rel. relaxed at a failure: the word read is not used.
    if (t.edge_to->compare_exchange_strong(expected, edge_word(&c), std::memory_order_acq_rel,
                                           std::memory_order_relaxed)) {
      copy->release();
      base::retire_node(context.guard, &v, successor);
    }
  }

  [[nodiscard]] static leftmost find_leftmost(node& of) {
    // order (1), (2), (3): read_edge, acquire
    leftmost at{&of.child[1], nullptr, of.child[1].load(std::memory_order_acquire), nullptr, &of};
    if (at.left.is_null()) return at;
    at.smallest = at.left.get();
    while (true) {
      edge& left = at.smallest->child[0];
      at.left = left.load(std::memory_order_acquire);  // order (1), (2), (3): read_edge, acquire
      if (at.left.is_null()) return at;
      at.to_parent = at.edge_to;
      at.parent = at.smallest;
      at.edge_to = &left;
      at.smallest = at.left.get();
    }
  }

  /// Moves the successor's entry up into a target with two frozen edges, and unlinks the successor. Returns the target
  /// that has to be finished before, or none if the work is done or there is no room for it.
  target relocate(erase_context& context, node& v) {
    if (!context.can_retire(v)) return {};
    while (true) {
      // order (4), (6): read_entry, acquire
      const entry_word before = v.entry.load(std::memory_order_acquire);
      if (before.has(entry_word::ready)) return {};
      const leftmost at = find_leftmost(v);
      const bool chosen = at.smallest != nullptr && at.left.has(promote_flag) && at.left.null_node() == &v;
      if (!chosen) {
        // A chosen successor stays the leftmost until it is unlinked.
        if (before.has(entry_word::promoted)) {
          mark_ready(v, before);
          return {};
        }
        if (at.smallest == nullptr || at.left.has(promote_flag)) continue;  // `before` is out of date
        if (at.left.has(delete_flag)) return {at.edge_to, at.smallest};
        // Read again, after the left edge: if the target were promoted by now, the node found could be the one behind
        // its successor. If not, the CAS succeeds only if no other thread has chosen a successor meanwhile, since that
        // would have been this node. order (4): read_entry, acquire
        if (v.entry.load(std::memory_order_acquire).has(entry_word::promoted)) continue;
        edge_word expected = at.left;
        // order (3): choose, acq_rel. relaxed at a failure: the word read is not used.
        if (!at.smallest->child[0].compare_exchange_strong(expected, edge_word::null_with(&v, promote_flag),
                                                           std::memory_order_acq_rel,
                                                           std::memory_order_relaxed))
          continue;
      }
      node& s = *at.smallest;
      edge_word right = s.child[1].load(std::memory_order_acquire);  // order (1): read_edge, acquire
      while (!right.has(promote_flag)) {
        if (right.has(intent_flag)) return {&s.child[1], right.get()};
        // order (3): freeze, acq_rel. order (1): read_edge, acquire, where it fails.
        if (s.child[1].compare_exchange_weak(right, right.with(promote_flag), std::memory_order_acq_rel,
                                             std::memory_order_acquire))
          break;
      }
      promote(context, v, s);
      // order (1): read_edge, acquire
      if (edge_word to_s = at.edge_to->load(std::memory_order_acquire); to_s.get() == &s) {
        const bool is_right_child = at.edge_to == &v.child[1];
        if (to_s.has(delete_flag) && !is_right_child) return {at.to_parent, at.parent};
        edge_word after = replacement_edge(edge_word(), right);
        if (is_right_child) after = after.with(delete_flag);
        // An INTENT on this edge is removed with it: that erase starts again.
        // order (1), (2): unlink, acq_rel. relaxed at a failure: the word read is not used.
        if (at.edge_to->compare_exchange_strong(to_s, after, std::memory_order_acq_rel,
                                                std::memory_order_relaxed)) {
          // order (4): read_entry, acquire
          mark_ready(v, v.entry.load(std::memory_order_acquire));
          return {};
        }
      }
    }
  }

  void promote(erase_context& context, node& v, node& s) noexcept {
    // Sealed before a copy can be made: an assignment after that would be lost.
    // order (5): read_entry, acquire
    entry_word e = s.entry.load(std::memory_order_acquire);
    // order (4): seal, acq_rel
    while (!e.has(entry_word::sealed) &&
           !s.entry.compare_exchange_weak(e, e.with(entry_word::sealed), std::memory_order_acq_rel,
                                          std::memory_order_acquire)) {
    }
    e = v.entry.load(std::memory_order_acquire);  // order (4): read_entry, acquire
    while (!e.has(entry_word::promoted)) {
      // LP: erase(true). order (4): promote, acq_rel
      if (v.entry.compare_exchange_weak(e, entry_word(&s), std::memory_order_acq_rel,
                                        std::memory_order_acquire)) {
        holder::retire(store_, context.guard, e.cell());
        return;
      }
    }
  }

  static void mark_ready(node& v, entry_word promoted) noexcept {
    // A store: the word no longer changes, and all threads that come here store the same.
    // order (4), (6): mark_ready, release
    v.entry.store(promoted.with(entry_word::ready), std::memory_order_release);
  }

  /// Null where the entry is final: its cell belongs to another node. relaxed: at rest, or unreachable.
  static const Value* cell_of(const node& n) noexcept {
    const entry_word e = n.entry.load(std::memory_order_relaxed);
    return e.is_final() ? nullptr : e.cell();
  }

  alignas(hw::false_sharing_bytes) mutable edge root_{};
};

}  // namespace espalier
