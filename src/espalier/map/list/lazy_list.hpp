#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "espalier/hw/cache_line.hpp"
#include "espalier/map/list/list_map.hpp"
#include "espalier/map/map_concept.hpp"
#include "espalier/map/map_traits.hpp"
#include "espalier/sync/backoff.hpp"
#include "espalier/sync/lock_concept.hpp"

// lazy_list: ordered list with a lock and a mark in each node.
// Heller, Herlihy, Luchangco, Moir, Scherer and Shavit, "A Lazy Concurrent List-Based Set Algorithm", OPODIS 2005.
//
// Essence. An update seeks without locks, locks the node before its key, and validates that it is not marked and still leads to
// what the seek has seen. An erase locks its own node too. It marks it, and unlinks it then. Readers look at the mark of the
// node with their key, and at no lock.
//
// Deviations from the paper:
//  1. No sentinel keys: the head is a link without a key, and the end is null.
//  2. An insert locks one node, not two: with the node before its key locked and validated no thread marks the one behind, since
//     that takes the same lock. For the same reason an erase validates no mark of its own node.
//  3. Values, overwritten in place with the node locked and not marked: an erase that returns the value holds the same lock.
//
// Invariants. A link changes only with its lock held, and not once it is marked. A node is marked and unlinked while the lock
// of the link before is held: a linked node is marked only then. Locks are taken in the order of the list: no deadlock.
//
// Progress. find, contains and scan take no lock, write nothing shared and never retry. They are lock-free, not wait-free:
// inserts may keep extending the way ahead of them. Updates block one another.
//
// Reclamation. The erase that unlinks a node retires it, after its locks are released. (I1) One linked link led to it. (I2) The
// erase holds the locks of both. (I3) Links are written with new nodes, and with what the unlinked node leads to, which stays
// linked: unlinking it would take the lock of the unlinked node.
//
// Linearization points
//   insert, insert_or_assign -> true     link: the store of the link
//   insert -> false, erase -> false      as find (list_map.hpp)
//   insert_or_assign -> false            the store of the value
//   erase -> true                        the store of the mark
//   update                               as the insert, the assignment or the erase that it amounts to
//
// Orderings
//   (1) link, unlink (release) -> read_next (acquire) in list_map.hpp: a thread that reaches a node sees it constructed.
//   (2) mark (release) -> look (acquire): the node with a marked entry is unlinked after the mark is seen, in the order of the
//       stores: a reader that finds the key absent elsewhere does not find the entry later.
//   (3) unlock (lock) in sync/lock_concept.hpp -> lock (lock) in sync/lock_concept.hpp: the holder of a lock sees the latest
//       store of the link, of the mark and of the value.

namespace espalier {

template <class Key, class Value, class Traits = map_traits, class Compare = std::less<Key>>
class lazy_list : public list_map<lazy_list<Key, Value, Traits, Compare>, Key, Value,
                                  completed_traits<Traits, locking_list_traits>, Compare> {
  using base = list_map<lazy_list, Key, Value, completed_traits<Traits, locking_list_traits>, Compare>;
  friend base;
  using base::store_;
  using typename base::contract;
  using typename base::holder;
  using typename base::store;
  friend contract;
  using lock_type = typename base::traits_type::lock_type;
  using held = lock_guard<lock_type>;

  struct node;

  struct link {
    std::atomic<node*> next{nullptr};
    lock_type lock;
    std::atomic<std::uint32_t> marked{0};
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
                    sizeof(lock_type) != 4 || sizeof(node) == 32,
                "the layout of a node, on which the measured figures rest, has changed");

 public:
  using typename base::guard_type;

  /// The same map with other entries, another order or other policies.
  template <class K, class V, class C = std::less<K>, class T = Traits>
  using rebind = lazy_list<K, V, T, C>;

  static constexpr map_properties properties{
      .name = "lazy_list",
      .find_progress = progress::lock_free,
      .update_progress = progress::blocking,
      .shape = balance::none,
      .region_protection = true,
      .paper = "Heller et al., A Lazy Concurrent List-Based Set Algorithm, OPODIS 2005",
      .exchanges = true,
      .bidirectional = true,
      .linear = true};

  static constexpr std::size_t node_bytes = sizeof(node);
  static constexpr auto node_members =
      std::to_array<node_member>({{"next", 0, sizeof(node*), search_use::all},
                                  {"lock", offsetof(link, lock), sizeof(lock_type)},
                                  {"marked", offsetof(link, marked), sizeof(link::marked)},
                                  {"key", sizeof(link), sizeof(Key), search_use::all},
                                  {"value", sizeof(fields) - sizeof(fields::value), sizeof(fields::value)}});

  using base::base;
  /// No other thread may use the map any more.
  ~lazy_list() { base::destroy_all(base::next_of(head_)); }

 private:
  using place = typename base::template place<link, node>;
  using new_node = typename base::template new_node<node>;

  bool do_insert(guard_type&, const Key& key, const Value& value) {
    new_node fresh(store_);
    for (backoff pause;; pause.wait()) {
      const place at = seek(key);
      if (base::found(at, key)) {
        if (look(*at.at).present) return false;
        continue;
      }
      node& made = fresh.prepare(base::near(at), key, value);
      const held before(at.before->lock);
      if (!leads_on(at)) continue;
      link_new(at, made, fresh);
      return true;
    }
  }

  bool do_assign(guard_type& guard, const Key& key, const Value& value) {
    new_node fresh(store_);
    guard.reserve(holder::retirements);
    for (backoff pause;; pause.wait()) {
      const place at = seek(key);
      if (base::found(at, key)) {
        const auto word = fresh.word.get(value);
        const held own(at.at->lock);
        if (is_marked(*at.at)) continue;
        holder::assign(store_, guard, at.at->value, word);  // LP: insert_or_assign(false)
        fresh.word.release();
        return false;
      }
      node& made = fresh.prepare(base::near(at), key, value);
      const held before(at.before->lock);
      if (!leads_on(at)) continue;
      link_new(at, made, fresh);
      return true;
    }
  }

  bool do_erase(guard_type& guard, const Key& key) {
    guard.reserve(1);
    for (backoff pause;; pause.wait()) {
      const place at = seek(key);
      if (!base::found(at, key) || !look(*at.at).present) return false;
      if (!unlink(at)) continue;
      base::retire_node(guard, at.at);
      return true;
    }
  }

  template <class Function>
  std::optional<Value> do_update(guard_type& guard, const Key& key, Function&& f) {
    new_node fresh(store_);
    guard.reserve(1);
    for (backoff pause;; pause.wait()) {
      const place at = seek(key);
      std::optional<Value> old;
      {
        const held before(at.before->lock);
        if (!leads_on(at)) continue;
        if (!base::found(at, key)) {
          if (std::optional<Value> value = f(std::nullopt))
            link_new(at, fresh.prepare(base::near(at), key, std::move(*value)), fresh);
          return std::nullopt;
        }
        const held own(at.at->lock);
        old.emplace(base::value_of(*at.at));
        if (std::optional<Value> value = f(old)) {
          holder::assign(store_, guard, at.at->value, fresh.word.get(std::move(*value)));
          fresh.word.release();
          return old;
        }
        unlink_locked(at);
      }
      base::retire_node(guard, at.at);
      return old;
    }
  }

  [[nodiscard]] static const char* check(const link& l) noexcept {
    if constexpr (lockable<lock_type>) {
      if (is_seen_held(l.lock)) return "a linked node is locked";
    }
    return is_marked(l) ? "a marked node is linked" : nullptr;
  }

  /// With the lock held, or at rest.
  [[nodiscard]] static bool is_marked(const link& l) noexcept {
    // relaxed: stored with the lock held.
    return l.marked.load(std::memory_order_relaxed) != 0;
  }

  [[nodiscard]] static typename base::template seen_node<node> look(const node& n) noexcept {
    node* const next = base::next_of(n);
    return {next, n.marked.load(std::memory_order_acquire) == 0};  // order (2): look, acquire
  }

  [[nodiscard]] place seek(const Key& key) const { return base::template seek_from<node>(head_, key); }

  /// With the lock of the link before held: whether it is linked, and leads where the seek saw it lead.
  [[nodiscard]] static bool leads_on(const place& at) noexcept {
    // relaxed: stored with the lock held.
    return !is_marked(*at.before) && at.before->next.load(std::memory_order_relaxed) == at.at;
  }

  /// With the lock of the link before held, which leads on.
  static void link_new(const place& at, node& made, new_node& fresh) noexcept {
    // relaxed: published by the store below.
    made.next.store(at.at, std::memory_order_relaxed);
    // LP: insert(true). order (1): link, release
    at.before->next.store(&made, std::memory_order_release);
    fresh.release();
  }

  /// False if the link before does not lead on.
  [[nodiscard]] static bool unlink(const place& at) {
    const held before(at.before->lock);
    if (!leads_on(at)) return false;
    const held own(at.at->lock);
    unlink_locked(at);
    return true;
  }

  /// With both locks held.
  static void unlink_locked(const place& at) noexcept {
    at.at->marked.store(1, std::memory_order_release);  // LP: erase(true). order (2): mark, release
    // relaxed: stored with the lock held.
    node* const behind = at.at->next.load(std::memory_order_relaxed);
    at.before->next.store(behind, std::memory_order_release);  // order (1): unlink, release
  }

  alignas(hw::false_sharing_bytes) mutable link head_;
};

}  // namespace espalier
