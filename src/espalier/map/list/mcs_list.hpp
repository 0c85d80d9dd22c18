#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <type_traits>
#include <utility>

#include "espalier/hw/cache_line.hpp"
#include "espalier/map/list/list_map.hpp"
#include "espalier/map/locked_nodes.hpp"
#include "espalier/map/map_concept.hpp"
#include "espalier/map/map_traits.hpp"
#include "espalier/map/scan.hpp"
#include "espalier/sync/lock_concept.hpp"
#include "espalier/sync/mcs_lock.hpp"

// mcs_list: ordered list with one lock around every operation, reads included.
// A baseline: the list under a global MCS lock of the study of DPS (Ren and Parmer, Middleware 2019).
//
// Essence. The lock, fair by default (an MCS queue), serialises everything; no field is atomic.
//
// Invariants, whenever the lock is free: keys increase along the list.
//
// Progress: blocking, every operation, and in the order of arrival under a fair lock. A holder that is descheduled stops all
// others.
//
// Reclamation: at once. A thread holds a pointer to a node only while it holds the lock. So after the lock is released, the erase
// has the only pointer to the node that it unlinked. The traits' reclaimer has nothing to do, and the map uses `unprotected`
// instead. Allocation happens under the lock, and only for a key that is absent.
//
// Linearization points: every operation, with any outcome, at its release of the lock; a scan at the release for each batch of 64
// entries.
//
// Orderings
//   (1) unlock (lock) in sync/lock_concept.hpp -> lock (lock) in sync/lock_concept.hpp: an operation sees what all
//       operations before it wrote. No field is atomic.

namespace espalier {

struct walks_over_lists {
  template <class Node, class Visit>
  static void visit_all(const Node* first, Visit&& visit) {
    for (; first != nullptr; first = first->next) visit(*first);
  }
  template <class Node, class Destroy>
  static void destroy_all(Node* first, Destroy&& destroy) noexcept {
    while (first != nullptr) destroy(std::exchange(first, first->next));
  }
  template <class Node>
  static void link(Node*& edge, Node* fresh) noexcept {
    fresh->next = edge;
    edge = fresh;
  }
};

template <class Key, class Value, class Traits = map_traits, class Compare = std::less<Key>>
class mcs_list : public locked_nodes<mcs_list<Key, Value, Traits, Compare>, Key, Value,
                                     completed_traits<Traits, locked_nodes_traits::with_lock<mcs_lock>>,
                                     Compare, walks_over_lists> {
  using base =
      locked_nodes<mcs_list, Key, Value, completed_traits<Traits, locked_nodes_traits::with_lock<mcs_lock>>,
                   Compare, walks_over_lists>;
  using traits = typename base::traits_type;
  friend base;
  using typename base::contract;
  friend contract;

  struct node;

  struct fields {
    Key key;
    node* next;
    Value value;

    fields(const Key& k, const Value& v) noexcept(std::is_nothrow_copy_constructible_v<Value>)
        : key(k), next(nullptr), value(v) {}
  };

  struct alignas(compact_layout::node_align(sizeof(fields), alignof(fields))) node : fields {
    using fields::fields;
  };

  static_assert(sizeof(Key) != 8 || alignof(Key) != 8 || sizeof(Value) != 8 || alignof(Value) != 8 ||
                    (offsetof(fields, key) == 0 && offsetof(fields, next) == 8 &&
                     offsetof(fields, value) == 16 && sizeof(fields) == 24),
                "the layout of a node, on which the measured figures rest, has changed");

 public:
  using typename base::guard_type;

  /// The same map of other entries, in another order, by other policies.
  template <class K, class V, class C = std::less<K>, class T = Traits>
  using rebind = mcs_list<K, V, T, C>;

  static constexpr map_properties properties{.name = "mcs_list",
                                             .find_progress = progress::blocking,
                                             .update_progress = progress::blocking,
                                             .shape = balance::none,
                                             .region_protection = false,
                                             .paper = "baseline: ordered list under one MCS lock",
                                             .exchanges = true,
                                             .bidirectional = true,
                                             .linear = true};

  static constexpr std::size_t node_bytes = sizeof(node);
  static constexpr auto node_members =
      std::to_array<node_member>({{"key", offsetof(fields, key), sizeof(Key), search_use::all},
                                  {"next", offsetof(fields, next), sizeof(fields::next), search_use::all},
                                  {"value", offsetof(fields, value), sizeof(Value)}});

  using base::base;
  /// No other thread may use the map any more.
  ~mcs_list() { base::destroy_all(first_); }

  // Quiescent only, for tests and inspection.

  /// What is wrong with the structure, or null.
  [[nodiscard]] const char* check_invariants() const {
    for (const node* n = first_; n != nullptr && n->next != nullptr; n = n->next) {
      if (!base::less(n->key, n->next->key)) return "a key follows one not smaller";
    }
    return nullptr;
  }

 private:
  [[nodiscard]] const node* top() const noexcept { return first_; }

  using batch = entry_batch<Key, Value>;

  /// What a seek holds.
  struct locks : lock_guard<typename traits::lock_type> {
    explicit locks(const mcs_list& map) : lock_guard<typename traits::lock_type>(map.lock_) {}
  };

  /// Where a seek ended.
  struct place {
    node** edge;   // to the first node whose key is not smaller, or to null
    node* parent;  // the node that has the edge; null for first_
    node* target;  // the node with the key
  };

  [[nodiscard]] place seek(const Key& key, const locks&) const {
    place at{&first_, nullptr, nullptr};
    while (*at.edge != nullptr && base::less((*at.edge)->key, key)) {
      at.parent = *at.edge;
      at.edge = &at.parent->next;
    }
    if (*at.edge != nullptr && !base::less(key, (*at.edge)->key)) at.target = *at.edge;
    return at;
  }

  [[nodiscard]] static node* unlink(const place& at) noexcept {
    *at.edge = at.target->next;
    return at.target;
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
    fill_from_list(
        out, bound, [this] { return first_; }, [](const node& n) { return n.next; },
        [](const node& n) -> const Value& { return n.value; });
  }

  alignas(hw::false_sharing_bytes) mutable typename traits::lock_type lock_;
  alignas(hw::false_sharing_bytes) mutable node* first_ = nullptr;
};

}  // namespace espalier
