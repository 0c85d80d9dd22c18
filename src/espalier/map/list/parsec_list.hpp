#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <functional>
#include <optional>
#include <utility>

#include "espalier/hw/cache_line.hpp"
#include "espalier/map/list/list_map.hpp"
#include "espalier/map/map_concept.hpp"
#include "espalier/map/map_traits.hpp"
#include "espalier/reclaim/quiescence.hpp"
#include "espalier/sync/lock_concept.hpp"
#include "espalier/sync/mcs_lock.hpp"

// parsec_list: ordered list whose writers take one lock, and whose readers take none.
// The list of ParSec in the study of DPS: Ren and Parmer, "Scalable Data-structures with Hierarchical, Distributed Delegation",
// Middleware 2019, section 5.2; Wang, Stamler and Parmer, "Parallel Sections", EuroSys 2016.
//
// Essence. Writers are serialised by an MCS lock, so that an update is that of a sequential list. It changes one link, by a release
// store. Readers walk beside it; quiescence (reclaim/quiescence.hpp) keeps the nodes that they stand on.
//
// Deviations from the source:
//  1. No sentinel keys: the head is a link without a key, and the end is null.
//  2. Values, overwritten in place with the lock held: an erase that returns the value holds the same lock.
//
// Invariants. Links and values change only with the lock held. The link of an unlinked node never changes.
//
// Progress. find, contains and scan take no lock, write nothing shared and never retry. They are lock-free, not wait-free:
// inserts may keep extending the way ahead of them. Updates block one another, in the order of their arrival under a fair lock.
//
// Reclamation. The erase retires the node that it has unlinked, after the lock is released. (I1) One linked link led to it.
// (I2) It holds the lock. (I3) Links are written with new nodes, and with what an unlinked node leads to, which is linked.
// Memory is allocated with the lock held, and only for a key that is absent.
//
// Linearization points
//   insert, insert_or_assign -> true     link: the store of the link
//   insert -> false, assign -> false     the release of the lock; the store of the value
//   erase -> true                        unlink: the store of the link
//   erase -> false                       the release of the lock
//   find, contains                       as list_map.hpp says, of which an entry is there while its node is linked
//   update                               as the insert, the assignment or the erase that it amounts to
//
// Orderings
//   (1) link, unlink (release) -> read_next (acquire) in list_map.hpp: a thread that reaches a node sees it constructed.
//   (2) unlock (lock) in sync/lock_concept.hpp -> lock (lock) in sync/lock_concept.hpp: a writer sees what the writers
//       before it stored.

namespace espalier {

/// The default policies.
using parsec_list_traits = list_traits::with_reclaimer<quiescence_domain>::with_lock<mcs_lock>;

template <class Key, class Value, class Traits = map_traits, class Compare = std::less<Key>>
class parsec_list : public list_map<parsec_list<Key, Value, Traits, Compare>, Key, Value,
                                    completed_traits<Traits, parsec_list_traits>, Compare> {
  using base = list_map<parsec_list, Key, Value, completed_traits<Traits, parsec_list_traits>, Compare>;
  friend base;
  using base::store_;
  using typename base::contract;
  using typename base::holder;
  using typename base::store;
  friend contract;
  using lock_type = typename base::traits_type::lock_type;

  struct node;

  struct link {
    std::atomic<node*> next{nullptr};
  };
  struct fields : link {
    Key key;
    std::atomic<typename holder::word> value;

    fields(const Key& k, typename holder::word v) noexcept : key(k), value(v) {}
  };
  struct alignas(compact_layout::node_align(sizeof(fields), alignof(fields))) node : fields {
    using fields::fields;
  };

  static_assert(sizeof(Key) != 8 || alignof(Key) != 8 || sizeof(typename holder::word) != 8 ||
                    sizeof(node) == 24,
                "the layout of a node, on which the measured figures rest, has changed");

 public:
  using typename base::guard_type;

  /// The same map with other entries, another order or other policies.
  template <class K, class V, class C = std::less<K>, class T = Traits>
  using rebind = parsec_list<K, V, T, C>;

  static constexpr map_properties properties{.name = "parsec_list",
                                             .find_progress = progress::lock_free,
                                             .update_progress = progress::blocking,
                                             .shape = balance::none,
                                             .region_protection = true,
                                             .paper =
                                                 "Ren and Parmer, Scalable Data-structures with "
                                                 "Hierarchical, Distributed Delegation, Middleware 2019",
                                             .exchanges = true,
                                             .bidirectional = true,
                                             .linear = true};

  static constexpr std::size_t node_bytes = sizeof(node);
  static constexpr auto node_members =
      std::to_array<node_member>({{"next", 0, sizeof(node*), search_use::all},
                                  {"key", sizeof(link), sizeof(Key), search_use::all},
                                  {"value", sizeof(fields) - sizeof(fields::value), sizeof(fields::value)}});

  using base::base;
  /// No other thread may use the map any more.
  ~parsec_list() { base::destroy_all(base::next_of(head_)); }

 private:
  using place = typename base::template place<link, node>;
  using new_node = typename base::template new_node<node>;

  bool do_insert(guard_type&, const Key& key, const Value& value) {
    new_node fresh(store_);
    const lock_guard hold(lock_);
    const place at = seek(key);
    if (base::found(at, key)) return false;
    link_new(at, fresh.prepare(base::near(at), key, value), fresh);
    return true;
  }

  bool do_assign(guard_type& guard, const Key& key, const Value& value) {
    new_node fresh(store_);
    guard.reserve(holder::retirements);
    const lock_guard hold(lock_);
    const place at = seek(key);
    if (!base::found(at, key)) {
      link_new(at, fresh.prepare(base::near(at), key, value), fresh);
      return true;
    }
    assign(guard, at, fresh, value);
    return false;
  }

  bool do_erase(guard_type& guard, const Key& key) {
    guard.reserve(1);
    node* removed = nullptr;
    {
      const lock_guard hold(lock_);
      const place at = seek(key);
      if (base::found(at, key)) removed = unlink(at);
    }
    if (removed != nullptr) base::retire_node(guard, removed);
    return removed != nullptr;
  }

  template <class Function>
  std::optional<Value> do_update(guard_type& guard, const Key& key, Function&& f) {
    new_node fresh(store_);
    guard.reserve(1);
    node* removed = nullptr;
    std::optional<Value> before;
    {
      const lock_guard hold(lock_);
      const place at = seek(key);
      if (base::found(at, key)) before.emplace(base::value_of(*at.at));
      std::optional<Value> after = f(before);
      if (before && after)
        assign(guard, at, fresh, std::move(*after));
      else if (after)
        link_new(at, fresh.prepare(base::near(at), key, std::move(*after)), fresh);
      else if (before)
        removed = unlink(at);
    }
    if (removed != nullptr) base::retire_node(guard, removed);
    return before;
  }

  [[nodiscard]] static const char* check(const link&) noexcept { return nullptr; }

  /// A node is linked when a walk comes to it, or was: that suffices (list_map.hpp).
  [[nodiscard]] static typename base::template seen_node<node> look(const node& n) noexcept {
    return {base::next_of(n), true};
  }

  // With the lock held.

  [[nodiscard]] place seek(const Key& key) const { return base::template seek_from<node>(head_, key); }

  static void link_new(const place& at, node& made, new_node& fresh) noexcept {
    // relaxed: published by the store below.
    made.next.store(at.at, std::memory_order_relaxed);
    // LP: insert(true). order (1): link, release
    at.before->next.store(&made, std::memory_order_release);
    fresh.release();
  }

  template <class Source>
  void assign(guard_type& guard, const place& at, new_node& fresh, Source&& value) {
    holder::assign(store_, guard, at.at->value, fresh.word.get(std::forward<Source>(value)));
    fresh.word.release();
  }

  [[nodiscard]] static node* unlink(const place& at) noexcept {
    // relaxed: stored with the lock held.
    node* const behind = at.at->next.load(std::memory_order_relaxed);
    // LP: erase(true). order (1): unlink, release
    at.before->next.store(behind, std::memory_order_release);
    return at.at;
  }

  alignas(hw::false_sharing_bytes) mutable lock_type lock_;
  alignas(hw::false_sharing_bytes) mutable link head_;
};

}  // namespace espalier
