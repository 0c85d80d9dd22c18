#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>

#include "espalier/hw/cache_line.hpp"
#include "espalier/map/list/list_map.hpp"
#include "espalier/map/map_concept.hpp"
#include "espalier/map/map_traits.hpp"
#include "espalier/sync/backoff.hpp"
#include "espalier/sync/optimistic_lock.hpp"

// optik_list: ordered list with a version lock in each node.
// Guerraoui and Trigonakis, "Optimistic Concurrency with OPTIK", PPoPP 2016.
//
// Essence. An update seeks without locks, and reads the version of a node before its link. It locks the node *at the version that
// it read*, which is acquisition and validation at once. An insert locks the node before its key. An erase locks its own node
// besides, and never unlocks it: obsolete means removed. Readers look at no version.
//
// Deviations from the paper:
//  1. No sentinel keys: the head is a link without a key, and the end is null.
//  2. A seek reads one version, of the node before the key, and then its link again. The paper's reads that of each node that it
//     passes. Where the link leads elsewhere by then, the seek goes on from there.
//  3. Values, overwritten in place with the node locked, whose version does not change: an erase that returns the value holds the
//     same lock.
//  4. Node caching within a batch of finds only: do_find_batch. The paper's operation begins at a node of an earlier one of its
//     thread. That dereferences memory that may have been freed and reused, unless it is never used for anything but nodes, and
//     their versions go on counting in the next life. Placements free memory, so here a node is cached only under the guard under
//     which it was reached, and within one call: then it needs no validation, since all finds of the call are one walk.
//
// Invariants. A link changes only with its lock held. An obsolete node's link never changes.
//
// Progress. find, contains and scan take no lock, write nothing shared and never retry. They are lock-free, not wait-free:
// inserts may keep extending the way ahead of them. Updates block one another.
//
// Reclamation. The erase that unlinks a node retires it, after its locks are released. (I1) One linked link led to it. (I2) The
// erase holds the locks of both. (I3) Links are written with new nodes, and with what the unlinked node leads to, which stays
// linked: unlinking it would lock the unlinked node.
//
// Linearization points
//   insert, insert_or_assign -> true     link: the store of the link
//   insert -> false, erase -> false      as find (list_map.hpp), of which an entry is there while its node is linked: a present
//                                        key counts at the moment at which its node was
//   insert_or_assign -> false            the store of the value
//   erase -> true                        unlink: the store of the link
//   update                               as the insert, the assignment or the erase that it amounts to
//
// Orderings
//   (1) link, unlink (release) -> read_next (acquire) in list_map.hpp: a thread that reaches a node sees it constructed.
//   (2) release (release) in sync/optimistic_lock.hpp -> now, upgrade (acquire) in sync/optimistic_lock.hpp: with a version comes
//       the link that it stands for, because the version is read before the link. The holder of a lock sees the latest store of
//       the link and of the value.

namespace espalier {

template <class Key, class Value, class Traits = map_traits, class Compare = std::less<Key>>
class optik_list : public list_map<optik_list<Key, Value, Traits, Compare>, Key, Value,
                                   completed_traits<Traits, list_traits>, Compare> {
  using base = list_map<optik_list, Key, Value, completed_traits<Traits, list_traits>, Compare>;
  friend base;
  using base::less;
  using base::store_;
  using typename base::contract;
  using typename base::holder;
  using typename base::store;
  friend contract;
  using held = optimistic_lock::write_guard;

  struct node;

  struct link {
    std::atomic<node*> next{nullptr};
    mutable optimistic_lock lock;
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
                    sizeof(node) == 32,
                "the layout of a node, on which the measured figures rest, has changed");

 public:
  using typename base::guard_type;

  /// The same map with other entries, another order or other policies.
  template <class K, class V, class C = std::less<K>, class T = Traits>
  using rebind = optik_list<K, V, T, C>;

  static constexpr map_properties properties{
      .name = "optik_list",
      .find_progress = progress::lock_free,
      .update_progress = progress::blocking,
      .shape = balance::none,
      .region_protection = true,
      .paper = "Guerraoui and Trigonakis, Optimistic Concurrency with OPTIK, PPoPP 2016",
      .exchanges = true,
      .bidirectional = true,
      .linear = true};

  static constexpr std::size_t node_bytes = sizeof(node);
  static constexpr auto node_members =
      std::to_array<node_member>({{"next", 0, sizeof(node*), search_use::all},
                                  {"lock", offsetof(link, lock), sizeof(optimistic_lock)},
                                  {"key", sizeof(link), sizeof(Key), search_use::all},
                                  {"value", sizeof(fields) - sizeof(fields::value), sizeof(fields::value)}});

  using base::base;
  /// No other thread may use the map any more.
  ~optik_list() { base::destroy_all(base::next_of(head_)); }

 private:
  using new_node = typename base::template new_node<node>;

  struct place : base::template place<link, node> {
    optimistic_lock::read_section seen;  // of the link before, as it led to the node
  };

  bool do_insert(guard_type&, const Key& key, const Value& value) {
    new_node fresh(store_);
    for (backoff pause;; pause.wait()) {
      const place at = seek(key);
      if (base::found(at, key)) return false;
      if (link_new(at, fresh.prepare(base::near(at), key, value), fresh)) return true;
    }
  }

  bool do_assign(guard_type& guard, const Key& key, const Value& value) {
    new_node fresh(store_);
    guard.reserve(holder::retirements);
    for (backoff pause;; pause.wait()) {
      const place at = seek(key);
      if (!base::found(at, key)) {
        if (link_new(at, fresh.prepare(base::near(at), key, value), fresh)) return true;
        continue;
      }
      const auto word = fresh.word.get(value);
      held own = at.at->lock.lock();
      if (!own) continue;
      holder::assign(store_, guard, at.at->value, word);  // LP: insert_or_assign(false)
      fresh.word.release();
      own.release_unchanged();
      return false;
    }
  }

  bool do_erase(guard_type& guard, const Key& key) {
    guard.reserve(1);
    for (backoff pause;; pause.wait()) {
      const place at = seek(key);
      if (!base::found(at, key)) return false;
      held before = lock_at(at.seen);
      if (!before) continue;
      held own = lock_at(at.at->lock.try_read());
      if (!own) {
        before.release_unchanged();
        continue;
      }
      unlink(at, before, own);
      base::retire_node(guard, at.at);
      return true;
    }
  }

  template <class Function>
  std::optional<Value> do_update(guard_type& guard, const Key& key, Function&& f) {
    new_node fresh(store_);
    guard.reserve(1);
    for (backoff pause;; pause.wait(), fresh.word.reset()) {
      const place at = seek(key);
      if (!base::found(at, key)) {
        std::optional<Value> value = f(std::nullopt);
        if (!value || link_new(at, fresh.prepare(base::near(at), key, std::move(*value)), fresh))
          return std::nullopt;
        continue;
      }
      held own = at.at->lock.lock();
      if (!own) continue;
      unchanged_unless_released undo{own};
      std::optional<Value> old(base::value_of(*at.at));
      if (std::optional<Value> value = f(old)) {
        holder::assign(store_, guard, at.at->value, fresh.word.get(std::move(*value)));
        fresh.word.release();
        return old;
      }
      held before = lock_at(at.seen);  // against the order of the list, and so without a wait
      if (!before) continue;
      undo.of = nullptr;
      unlink(at, before, own);
      base::retire_node(guard, at.at);
      return old;
    }
  }

  /// With node caching: each find begins at the node before the key of the last one, if that is before its own key. The node was
  /// linked at a moment since the call began, as the proof in list_map.hpp requires of each node of a walk.
  std::size_t do_find_batch(guard_type&, std::span<const Key> keys,
                            std::span<std::optional<Value>> results) const {
    std::size_t present = 0;
    node* cached = nullptr;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      results[i].reset();
      link& from = cached != nullptr && less(cached->key, keys[i]) ? static_cast<link&>(*cached) : head_;
      const auto at = base::template seek_from<node>(from, keys[i]);
      if (at.before != &head_) cached = static_cast<node*>(at.before);
      if (!base::found(at, keys[i])) continue;
      results[i].emplace(base::value_of(*at.at));
      ++present;
    }
    return present;
  }

  /// Releases a lock with its version unchanged at the end of the scope, unless `of` is null.
  struct unchanged_unless_released {
    held* of;
    explicit unchanged_unless_released(held& h) noexcept : of(&h) {}
    unchanged_unless_released(const unchanged_unless_released&) = delete;
    unchanged_unless_released& operator=(const unchanged_unless_released&) = delete;
    ~unchanged_unless_released() {
      if (of != nullptr) of->release_unchanged();
    }
  };

  [[nodiscard]] static const char* check(const link& l) noexcept {
    if (l.lock.try_read().obsolete()) return "a removed node is linked";
    return l.lock.is_locked() ? "a linked node is locked" : nullptr;
  }

  /// A node is linked when a walk comes to it, or was: that suffices (list_map.hpp).
  [[nodiscard]] static typename base::template seen_node<node> look(const node& n) noexcept {
    return {base::next_of(n), true};
  }

  [[nodiscard]] place seek(const Key& key) const {
    auto at = base::template seek_from<node>(head_, key);
    while (true) {
      // The version before the link, as (2) requires.
      const auto seen = at.before->lock.try_read();
      at.at = base::next_of(*at.before);
      if (at.at == nullptr || !less(at.at->key, key)) return {at, seen};
      at = base::template seek_from<node>(static_cast<link&>(*at.at), key);
    }
  }

  /// Empty if the link is locked, was when the version was read, or has changed since. Never waits.
  [[nodiscard]] static held lock_at(const optimistic_lock::read_section& seen) noexcept {
    return seen.steady() ? seen.upgrade() : held{};
  }

  /// False if the link before has changed.
  static bool link_new(const place& at, node& made, new_node& fresh) noexcept {
    const held before = lock_at(at.seen);
    if (!before) return false;
    // relaxed: published by the store below.
    made.next.store(at.at, std::memory_order_relaxed);
    // LP: insert(true). order (1): link, release
    at.before->next.store(&made, std::memory_order_release);
    fresh.release();
    return true;
  }

  /// With both locks held, which it releases.
  static void unlink(const place& at, held& before, held& own) noexcept {
    // relaxed: stored with the lock held.
    node* const behind = at.at->next.load(std::memory_order_relaxed);
    // LP: erase(true). order (1): unlink, release
    at.before->next.store(behind, std::memory_order_release);
    own.release_obsolete();
    before.release();
  }

  alignas(hw::false_sharing_bytes) mutable link head_;
};

}  // namespace espalier
