#pragma once

#include <array>
#include <atomic>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <type_traits>

#include "espalier/map/bst/bst_traits.hpp"
#include "espalier/map/bst/external_map.hpp"
#include "espalier/map/bst/tree_at_rest.hpp"
#include "espalier/map/map_concept.hpp"
#include "espalier/map/map_traits.hpp"
#include "espalier/map/tagged_ptr.hpp"
#include "espalier/memory/clustered.hpp"
#include "espalier/sync/backoff.hpp"

// edge_ext_lf: lock-free external binary search tree whose edges carry the marks.
// Natarajan and Mittal, "Fast Concurrent Lock-free Binary Search Trees", PPoPP 2014.
//
// Essence. Keys lie in leaves; an internal node routes (left: smaller than its key). An erase owns its leaf by a
// FLAG on the edge to it. It freezes the edge to the sibling with a TAG, and swings the deepest untagged edge above
// (the ancestor's) to the sibling. All edges between ancestor and leaf may be tagged: one swing then removes the
// whole chain, and a flagged leaf hangs off each of its nodes.
//
// Deviations from the paper:
//  1. No sentinel keys. The tree hangs on root_, an edge that no node holds; it is null for the empty map and may
//     point to a leaf. root_ is never tagged, so a seek always finds an untagged ancestor edge. A leaf on root_ has no
//     parent: its erase is one CAS to null. Such a leaf can be flagged, if its sibling's erase moved it up. A thread
//     that meets it then completes its erase with the same CAS.
//  2. Values, overwritten in place (node_store.hpp has the argument).
//  3. Memory is reclaimed (below); the paper leaks it.
//  4. An erase that another thread completed returns true: it owned the flag.
//
// Invariants. An edge with a FLAG points to a leaf. Once an edge of a node has a FLAG or a TAG, it never points
// elsewhere; root_ can change from a flagged leaf to null. The bits are only added. The range of keys below a node
// never shrinks while the node is linked.
//
// Progress: every operation is lock-free. find, contains and scan write nothing shared and never retry. They are not
// wait-free, since inserts may keep extending the path ahead of them. A retry of insert, insert_or_assign or erase
// means that another operation's CAS succeeded.
//
// Placement. Routers and leaves are apart. A router is requested near its parent, because a seek comes from there
// (memory/clustered.hpp).
//
// Reclamation. A node is detached by exactly one CAS: the swing of some ancestor edge, or the CAS of root_ to null. Its
// winner retires what it detached, as one entry: the chain from the old successor down to the new sibling, which is not
// included. Every edge in that chain is frozen, so the chain can be walked when it is reclaimed: at each node one child
// leads on and the other is a flagged leaf. The sibling stays linked, flagged or not. (I1) The swing makes the chain
// unreachable: the ancestor edge was untagged, hence held by a linked node. (I2) One winner. (I3) Later CASes write
// only new nodes, and siblings read from frozen edges of nodes that were still linked at that moment.
//
// Linearization points
//   insert, insert_or_assign -> true     publish: its CAS
//   insert -> false, assign -> false     the read of the edge to the leaf; the store of the value
//   erase -> true                        the swing that detaches the leaf, by whichever thread; unlink_last
//   erase -> false, find, contains       the read of the edge to the leaf (marks are ignored)
//
// Orderings
//   (1) publish, swing (release) -> read_edge (acquire), read_edge (acquire) in external_map.hpp: a thread that reaches
//       a node sees it constructed.
//   (2) freeze (release) -> read_edge (acquire): a thread that sees a TAG sees the FLAG on the edge beside it as well.
//       So the thread that retires a chain has seen where each edge of it points for good; reclaim_chain() reads
//       these edges relaxed.
//   (3) flag, unlink_last (acq_rel) -> read_edge (acquire): more than the proofs need. Neither CAS publishes a node,
//       and as a read-modify-write each continues the release sequence of (1).

namespace espalier {

/// The default policies.
using edge_ext_lf_traits = plain_traits::with_placement<clustered>;

/// The node that edge_ext_lf has in the published layout. The authors' node is compact already: the study of ATC 2018
/// finds nothing wrong with it.
struct edge_ext_lf_by_authors {
  static constexpr std::string_view name = "edge_ext_lf";
  static constexpr std::size_t published_padding = 0;
};
/// The second implementation of the study, ASCYLIB's, fills a cache line with each node.
struct edge_ext_lf_by_ascylib {
  static constexpr std::string_view name = "edge_ext_lf_2";
  static constexpr std::size_t published_padding = 32;
};

template <class Key, class Value, class Traits = map_traits, class Compare = std::less<Key>,
          class Design = edge_ext_lf_by_authors>
class edge_ext_lf : public external_map<edge_ext_lf<Key, Value, Traits, Compare, Design>, Key, Value,
                                        completed_traits<Traits, edge_ext_lf_traits>, Compare> {
  using base = external_map<edge_ext_lf, Key, Value, completed_traits<Traits, edge_ext_lf_traits>, Compare>;
  using traits = typename base::traits_type;
  friend base;
  using base::equal;
  using base::side;
  using base::store_;
  using typename base::holder;
  using typename base::store;

  static constexpr std::uintptr_t flag = 1;
  static constexpr std::uintptr_t tag = 2;

  struct node;
  using edge_word = tagged_ptr<node, 2>;
  using edge = std::atomic<edge_word>;

  // Search fields first: 24 of 32 bytes, and the compact layout aligns them to 32.
  struct compact_fields {
    Key key;
    std::array<edge, 2> child;  // both null in a leaf, neither in an internal node
    std::atomic<typename holder::word> value;

    compact_fields(const Key& k, typename holder::word v) noexcept : key(k), child{}, value(v) {}
    compact_fields(const Key& k, node* left, node* right) noexcept
        : key(k), child{edge_word(left), edge_word(right)}, value(typename holder::word{}) {}
  };

  struct padded_fields : compact_fields {
    using compact_fields::compact_fields;
    std::array<std::byte, Design::published_padding> padding;
  };

  static constexpr bool padded =
      traits::layout_type::shape == node_shape::published && Design::published_padding != 0;
  static_assert(padded || traits::layout_type::shape == node_shape::compact,
                "this design has no published node");
  using fields = std::conditional_t<padded, padded_fields, compact_fields>;

  struct alignas(traits::layout_type::node_align(sizeof(fields), alignof(fields))) node : fields {
    using fields::fields;
    [[nodiscard]] bool is_leaf() const noexcept {
      // relaxed: null or not is fixed at construction.
      return this->child[0].load(std::memory_order_relaxed).get() == nullptr;
    }
  };

  static_assert(edge::is_always_lock_free, "this processor has no lock-free atomics of that size");
  static_assert(sizeof(Key) != 8 || alignof(Key) != 8 || sizeof(typename holder::word) != 8 ||
                    (offsetof(compact_fields, key) == 0 && offsetof(compact_fields, child) == 8 &&
                     offsetof(compact_fields, value) == 24 && sizeof(compact_fields) == 32),
                "the layout of a node, on which the measured figures rest, has changed");

 public:
  using typename base::guard_type;

  /// The same map with other entries, another order or other policies.
  template <class K, class V, class C = std::less<K>, class T = Traits>
  using rebind = edge_ext_lf<K, V, T, C, Design>;

  static constexpr map_properties properties{
      .name = Design::name,
      .find_progress = progress::lock_free,
      .update_progress = progress::lock_free,
      .shape = balance::none,
      .region_protection = true,
      .paper = "Natarajan and Mittal, Fast Concurrent Lock-free Binary Search Trees, PPoPP 2014",
      .bidirectional = true};

  static constexpr std::size_t node_bytes = sizeof(node);
  static constexpr auto node_members = std::to_array<node_member>(
      {{"key", offsetof(compact_fields, key), sizeof(Key), search_use::all},
       {"child", offsetof(compact_fields, child), sizeof(compact_fields::child), search_use::half},
       {"value", offsetof(compact_fields, value), sizeof(compact_fields::value)}});

  using base::base;
  /// No other thread may use the map any more.
  // order (1): read_edge, acquire: more than needed at rest.
  ~edge_ext_lf() { base::destroy_all(root_.load(std::memory_order_acquire).get()); }

 private:
  using typename base::contract;
  friend contract;
  using insertion_type = insertion<store, node, holder, Key, Value, Compare>;

  bool do_insert(guard_type& guard, const Key& key, const Value& value) {
    return add(guard, key, value, [](node&, insertion_type&) {});
  }

  bool do_assign(guard_type& guard, const Key& key, const Value& value) {
    return add(guard, key, value, [&](node& leaf, insertion_type& fresh) {
      holder::assign(store_, guard, leaf.value, fresh.word.get(value));
      fresh.word.release();
    });
  }

  bool do_erase(guard_type& guard, const Key& key) {
    for (backoff pause;; pause.wait()) {
      guard.reserve(2);  // one to help, one of its own: after the flag it must not fail
      seek_record at = seek(key);
      if (at.leaf == nullptr || !equal(at.leaf->key, key)) return false;
      if (at.parent == nullptr) {
        // LP: erase(true) is unlink_last when it removes the unflagged word.
        if (unlink_last(guard, at.leaf_word) && !at.leaf_word.has(flag)) return true;
        continue;
      }
      edge_word expected(at.leaf);
      // order (3): flag, acq_rel
      if (at.leaf_edge->compare_exchange_strong(expected, edge_word(at.leaf, flag), std::memory_order_acq_rel,
                                                std::memory_order_acquire)) {
        finish_erase(guard, key, at);
        return true;
      }
      if (expected.get() == at.leaf) cleanup(guard, key, at);  // marked by another thread: help
    }
  }

 public:
  // Quiescent only, for tests and inspection.

  /// What is wrong with the structure, or null.
  // order (1): read_edge, acquire: more than needed at rest.
  [[nodiscard]] const char* check_invariants() const {
    return tree_at_rest::check_external(
        base::key_comp(), root_.load(std::memory_order_acquire),
        [](edge_word w) -> const char* { return w.tags() != 0 ? "a mark was left on an edge" : nullptr; });
  }

 private:
  struct seek_record {
    edge* ancestor_edge;  // deepest untagged edge above the parent
    node* successor;      // what it pointed to
    node* parent;         // null where the leaf hangs on root_
    edge* leaf_edge;
    node* leaf;           // null where the map is empty
    edge_word leaf_word;  // as read from leaf_edge
  };

  // order (1): read_edge, acquire
  [[nodiscard]] const node* top() const noexcept { return root_.load(std::memory_order_acquire).get(); }

  [[nodiscard]] seek_record seek(const Key& key) const {
    // order (1), (2): read_edge, acquire
    seek_record at{&root_, nullptr, nullptr, &root_, nullptr, root_.load(std::memory_order_acquire)};
    at.successor = at.leaf = at.leaf_word.get();
    if (at.leaf == nullptr) return at;
    while (true) {
      edge& next_edge = at.leaf->child[side(key, *at.leaf)];
      // order (1), (2): read_edge, acquire
      const edge_word next = next_edge.load(std::memory_order_acquire);
      if (next.get() == nullptr) return at;
      if (!at.leaf_word.has(tag)) {
        at.ancestor_edge = at.leaf_edge;
        at.successor = at.leaf;
      }
      at.parent = at.leaf;
      at.leaf_edge = &next_edge;
      at.leaf = next.get();
      at.leaf_word = next;
    }
  }

  template <class Present>
  bool add(guard_type& guard, const Key& key, const Value& value, Present&& present) {
    insertion_type fresh(store_, base::key_comp());
    for (backoff pause;; pause.wait()) {
      guard.reserve(1 + holder::retirements);
      seek_record at = seek(key);
      if (at.leaf != nullptr && equal(at.leaf->key, key)) {
        present(*at.leaf, fresh);
        return false;
      }
      node* const top_node = fresh.prepare(key, value, at.leaf, at.parent);
      edge_word expected(at.leaf);
      // LP: insert(true) is this CAS when it succeeds. order (1): publish, acq_rel
      if (at.leaf_edge->compare_exchange_strong(expected, edge_word(top_node), std::memory_order_acq_rel,
                                                std::memory_order_acquire)) {
        fresh.linked();
        return true;
      }
      if (at.leaf == nullptr || expected.get() != at.leaf) continue;
      if (at.parent == nullptr)
        unlink_last(guard, expected);
      else
        cleanup(guard, key, at);
    }
  }

  /// Completes the erase whose flag this thread has set. Needs one reserved retirement.
  void finish_erase(guard_type& guard, const Key& key, seek_record at) {
    const node* const mine = at.leaf;
    // The leaf cannot be reclaimed while this thread is pinned. So another leaf at this key, or none, means that
    // another thread's swing has removed this one.
    for (backoff pause; at.leaf == mine; pause.wait(), at = seek(key)) {
      if (at.parent == nullptr ? unlink_last(guard, at.leaf_word) : cleanup(guard, key, at)) return;
    }
  }

  /// Unlinks the only leaf, given as read from root_. True if this call did.
  bool unlink_last(guard_type& guard, edge_word only) noexcept {
    edge_word expected = only;
    // LP of the erase that owns the leaf. order (3): unlink_last, acq_rel. relaxed at a failure: the word read is not
    // used.
    if (!root_.compare_exchange_strong(expected, edge_word(), std::memory_order_acq_rel,
                                       std::memory_order_relaxed))
      return false;
    base::retire_node(guard, only.get());
    return true;
  }

  /// Removes the parent and the flagged leaf below it: its own leaf's, or the sibling's if only that one is
  /// flagged. One of the two is, when this is called. True if this call made the swing.
  bool cleanup(guard_type& guard, const Key& key, const seek_record& at) noexcept {
    const std::size_t key_side = side(key, *at.parent);
    edge* keep = &at.parent->child[1 - key_side];
    // order (1), (2), (3): read_edge, acquire: of both loads.
    if (!at.parent->child[key_side].load(std::memory_order_acquire).has(flag))
      keep = &at.parent->child[key_side];
    edge_word sibling = keep->load(std::memory_order_acquire);
    // Bits are only added, so a fetch_or would do, but std::atomic<edge_word> has none.
    // order (2): freeze, acq_rel. order (1): read_edge, acquire, where it fails: the sibling may be new.
    while (!sibling.has(tag) &&
           !keep->compare_exchange_weak(sibling, sibling.with(tag), std::memory_order_acq_rel,
                                        std::memory_order_acquire)) {
    }
    edge_word expected(at.successor);
    // The sibling keeps its FLAG: its own erase is under way. LP of the erase that owns the unlinked leaf.
    // order (1): swing, acq_rel. relaxed at a failure: the word read is not used.
    if (!at.ancestor_edge->compare_exchange_strong(expected, edge_word(sibling.get(), sibling.tags() & flag),
                                                   std::memory_order_acq_rel, std::memory_order_relaxed))
      return false;
    store_.retire_by(guard, at.successor, sibling.get(), reclaim_chain);
    return true;
  }

  /// entry.object is the first node of a detached chain. entry.aux is the sibling that took its place; it is only
  /// compared, never followed.
  static void reclaim_chain(const retired& entry) noexcept {
    store& owner = *static_cast<store*>(entry.owner);
    const void* const stop = entry.aux;
    node* n = static_cast<node*>(entry.object);
    while (true) {
      // relaxed: the thread that retired the chain has seen where each edge points for good, by (2).
      node* const left = n->child[0].load(std::memory_order_relaxed).get();
      node* const right = n->child[1].load(std::memory_order_relaxed).get();
      const bool last = left == stop || right == stop;
      // Before the last node, the child that leads on is the internal one: only edges to leaves have a FLAG.
      const bool left_goes = last ? right == stop : left->is_leaf();
      base::destroy(owner, left_goes ? left : right);
      base::destroy(owner, n);
      if (last) return;
      n = left_goes ? right : left;
    }
  }

  alignas(hw::false_sharing_bytes) mutable edge root_{};
};

}  // namespace espalier
