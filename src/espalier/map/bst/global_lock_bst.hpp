#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <type_traits>

#include "espalier/hw/cache_line.hpp"
#include "espalier/map/bst/locked_tree.hpp"
#include "espalier/map/bst/tree_at_rest.hpp"
#include "espalier/map/map_concept.hpp"
#include "espalier/map/map_traits.hpp"
#include "espalier/map/scan.hpp"
#include "espalier/sync/lock_concept.hpp"
#include "espalier/sync/mcs_lock.hpp"

// global_lock_bst: internal binary search tree with one lock around every operation, reads included.
// A baseline without a paper: the textbook tree, at its most compact (32 bytes with 64-bit keys and values).
//
// Essence. The lock, fair by default (an MCS queue), serialises everything; no field is atomic. An erase of a
// node with two children puts the successor's *node* in its place, and does not copy the successor's key and
// value: an entry stays in one node for all its life.
//
// Invariants, whenever the lock is free: keys left of a node are smaller than its key, keys right of it
// larger; exactly one edge leads to a node.
//
// Progress: blocking, every operation, and in the order of arrival under a fair lock. A holder that is
// descheduled stops all others. The tree is never rebalanced: its depth results from the order of insertion.
//
// Reclamation: at once. A thread holds a pointer to a node only while it holds the lock. So after the lock is
// released, the erase has the only pointer to the node that it detached. The traits' reclaimer has nothing to
// do, and the map uses `unprotected` instead. Allocation happens under the lock, and only for a key that is
// absent.
//
// Linearization points: every operation, with any outcome, at its release of the lock; a scan at the release for
// each batch of 64 entries.
//
// Orderings
//   (1) unlock (lock) in sync/lock_concept.hpp -> lock (lock) in sync/lock_concept.hpp: an operation sees what all
//       operations before it wrote. No field is atomic.

namespace espalier {

template <class Key, class Value, class Traits = map_traits, class Compare = std::less<Key>>
class global_lock_bst
    : public locked_tree<global_lock_bst<Key, Value, Traits, Compare>, Key, Value,
                         completed_traits<Traits, locked_nodes_traits::with_lock<mcs_lock>>, Compare> {
  using base = locked_tree<global_lock_bst, Key, Value,
                           completed_traits<Traits, locked_nodes_traits::with_lock<mcs_lock>>, Compare>;
  using traits = typename base::traits_type;
  friend base;
  using typename base::contract;
  friend contract;

  struct node;

  // Fields of seeks first: 24 of 32 bytes, and they are aligned to 32.
  struct fields {
    Key key;
    std::array<node*, 2> child;
    Value value;

    fields(const Key& k, const Value& v) noexcept(std::is_nothrow_copy_constructible_v<Value>)
        : key(k), child{}, value(v) {}
  };

  struct alignas(compact_layout::node_align(sizeof(fields), alignof(fields))) node : fields {
    using fields::fields;
  };

  static_assert(sizeof(Key) != 8 || alignof(Key) != 8 || sizeof(Value) != 8 || alignof(Value) != 8 ||
                    (offsetof(fields, key) == 0 && offsetof(fields, child) == 8 &&
                     offsetof(fields, value) == 24 && sizeof(fields) == 32),
                "the layout of a node, on which the measured figures rest, has changed");

 public:
  using typename base::guard_type;

  /// The same map of other entries, in another order, by other policies.
  template <class K, class V, class C = std::less<K>, class T = Traits>
  using rebind = global_lock_bst<K, V, T, C>;

  static constexpr map_properties properties{.name = "global_lock_bst",
                                             .find_progress = progress::blocking,
                                             .update_progress = progress::blocking,
                                             .shape = balance::none,
                                             .region_protection = false,
                                             .paper = "baseline: textbook internal tree under one lock",
                                             .exchanges = true,
                                             .bidirectional = true};

  static constexpr std::size_t node_bytes = sizeof(node);
  static constexpr auto node_members =
      std::to_array<node_member>({{"key", offsetof(fields, key), sizeof(Key), search_use::all},
                                  {"child", offsetof(fields, child), sizeof(fields::child), search_use::half},
                                  {"value", offsetof(fields, value), sizeof(Value)}});

  using base::base;
  /// No other thread may use the map any more.
  ~global_lock_bst() { base::destroy_all(root_); }

  // Quiescent only, for tests and inspection.

  /// What is wrong with the structure, or null.
  [[nodiscard]] const char* check_invariants() const {
    return tree_at_rest::check_internal(base::key_comp(), top(),
                                        [](const node&) -> const char* { return nullptr; });
  }

 private:
  [[nodiscard]] const node* top() const noexcept { return root_; }

  using batch = entry_batch<Key, Value>;

  /// What a seek holds.
  struct locks : lock_guard<typename traits::lock_type> {
    explicit locks(const global_lock_bst& map) : lock_guard<typename traits::lock_type>(map.lock_) {}
  };

  /// Where a seek ended.
  struct place {
    node** edge;   // to the target, or null where the key would be
    node* parent;  // the node that has the edge; null for root_
    node* target;  // the node with the key
  };

  [[nodiscard]] place seek(const Key& key, const locks&) const {
    place at{&root_, nullptr, root_};
    while (node* const n = at.target) {
      std::size_t side = 0;
      if (!base::less(key, n->key)) {
        if (!base::less(n->key, key)) break;
        side = 1;
      }
      at = {&n->child[side], n, n->child[side]};
    }
    return at;
  }

  [[nodiscard]] static node* unlink(const place& at) noexcept {
    node* const target = at.target;
    if (target->child[0] == nullptr || target->child[1] == nullptr) {
      *at.edge = target->child[target->child[0] == nullptr ? 1 : 0];
      return target;
    }
    node** to_successor = &target->child[1];
    while ((*to_successor)->child[0] != nullptr) to_successor = &(*to_successor)->child[0];
    node* const successor = *to_successor;
    // In this order: the edge to the successor may be the target's own, which is then copied as changed.
    *to_successor = successor->child[1];
    successor->child = target->child;
    *at.edge = successor;
    return target;
  }

  /// Copies up to 64 entries at a time under the lock; the visitor may call the map.
  template <class Bound, class Visit>
  void do_scan(guard_type&, const Bound& bound, Visit&& visit) const {
    batched_scan<Key, Value>(bound, [this](batch& out, const Bound& from) { fill(out, from); }, visit);
  }

  /// Takes the lock itself.
  template <class Bound>
  void fill(batch& out, const Bound& bound) const {
    const lock_guard hold(lock_);
    // The latest nodes at which the walk turned to the near side; a newer one overwrites the oldest. Each gives one
    // entry when the walk comes back to it, so none is missed before the batch is full.
    std::array<const node*, batch::capacity> kept;
    std::size_t turns = 0;
    std::size_t count = 0;
    const auto keep = [&](const node* n) {
      kept[turns++ % kept.size()] = n;
      if (count < kept.size()) ++count;
    };
    for (const node* n = root_; n != nullptr;) {
      const bool in_range = bound.admits(n->key);
      if (in_range) keep(n);
      n = n->child[in_range ? Bound::near : Bound::far];
    }
    while (count != 0 && !out.full()) {
      const node* const n = kept[--turns % kept.size()];
      --count;
      out.add(n->key, n->value);
      for (const node* next = n->child[Bound::far]; next != nullptr; next = next->child[Bound::near])
        keep(next);
    }
  }

  alignas(hw::false_sharing_bytes) mutable typename traits::lock_type lock_;
  alignas(hw::false_sharing_bytes) mutable node* root_ = nullptr;
};

}  // namespace espalier
