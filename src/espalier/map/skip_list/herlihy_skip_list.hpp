#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "espalier/map/map_concept.hpp"
#include "espalier/map/map_traits.hpp"
#include "espalier/map/skip_list/skip_list_map.hpp"
#include "espalier/sync/backoff.hpp"
#include "espalier/sync/lock_concept.hpp"
#include "espalier/sync/ttas_lock.hpp"

// herlihy_skip_list: skip list with a lock for each node, whose updates lock late and validate.
// Herlihy, Lev, Luchangco and Shavit, "A Simple Optimistic Skiplist Algorithm", SIROCCO 2007.
//
// Essence. An update seeks without locks. It remembers, for each level, the last tower before its key and the node after
// it. It locks those towers that it will change, from level 0 up, and validates them: none is erased, and each link still
// leads to that node. Then it links or unlinks its node. If a tower is not as it was, it unlocks all and starts again.
//
// Deviations from the paper:
//  1. An insert takes effect when it links its node at level 0, not when all levels are linked. An erase of the node cannot run
//     before all levels are linked: the insert holds the locks of the towers before the node, and the validation of the erase
//     fails if its search has not met the node at each level. So there is no flag fullyLinked: a find reads none, and an insert
//     of the key that is being inserted returns at once. In the paper it spins until the flag is set.
//  2. An erase takes effect when it unlinks its node at level 0. It marks the node when it holds all locks, where nothing
//     can fail any more. The paper marks it first, and keeps it locked while it seeks the towers again. Here a comparator
//     that throws leaves the list as it was, and no search meets a marked node that is linked. Only holders of the lock read
//     the mark, so it is no atomic.
//  3. A validation does not ask whether the node after is marked: an erase of that node has to lock the same tower.
//  4. The head has no key, and there is no tail.
//  5. Values, overwritten under the lock of their node.
//  6. Memory is reclaimed (below).
//
// Invariants. A link changes under the lock of its tower. The list of a level has the nodes of the one above. What an erased
// node leads to stays as it was.
//
// Order of locks. A node's own lock comes first, then those of the towers before it, from level 0 up: keys descend.
//
// Progress. find, contains and scan take no lock, write nothing shared and never retry. They are lock-free, not wait-free:
// inserts may go on extending the way ahead. Updates block one another: a holder that is descheduled stops updates of the
// towers that it has locked.
//
// Reclamation. The erase retires the node that it has unlinked, after it has unlocked all. (I1) It was unlinked at each level
// of its tower. (I2) The mark is set once, under the lock. (I3) Links are
// written with a new node, or with the frozen ones of the node that goes; those lead to nodes that are linked at that level,
// because an erase of one of these has to lock the node that goes, or the tower before it.
//
// Linearization points
//   insert, insert_or_assign -> true     publish: the store of the link at level 0
//   insert -> false                      as find
//   assign -> false, update to a value   the store of the value
//   erase -> true, update to nothing     unlink: the store of the link at level 0
//   erase -> false, find, contains       as skip_list_map.hpp says
//
// Orderings
//   (1) publish, unlink (release) -> read_link (acquire) in map/skip_list/skip_list_map.hpp: a thread that reaches a node
//       sees it constructed, and the links that were stored before.
// The accesses of the mark, and those of links and values by holders of the lock, are ordered by the lock.

namespace espalier {

/// The default policies.
using herlihy_skip_list_traits = skip_list_traits::with_lock<ttas_lock>;

template <lockable Lock>
struct herlihy_tower {
  explicit herlihy_tower(unsigned count) noexcept : levels(static_cast<std::uint8_t>(count)) {}
  Lock lock;
  const std::uint8_t levels;
  bool erased = false;  // under the lock
};

template <class Key, class Value, class Traits = map_traits, class Compare = std::less<Key>,
          class Levels = drawn_levels>
class herlihy_skip_list
    : public skip_list_map<
          herlihy_skip_list<Key, Value, Traits, Compare, Levels>, Key, Value,
          completed_traits<Traits, herlihy_skip_list_traits>, Compare,
          herlihy_tower<typename completed_traits<Traits, herlihy_skip_list_traits>::lock_type>, false,
          Levels> {
  using traits = completed_traits<Traits, herlihy_skip_list_traits>;
  using base = skip_list_map<herlihy_skip_list, Key, Value, traits, Compare,
                             herlihy_tower<typename traits::lock_type>, false, Levels>;
  friend base;
  using base::store_;
  using typename base::contract;
  friend contract;
  using typename base::holder;
  using typename base::new_node;
  using typename base::node;
  using typename base::tower;
  using place = typename base::template place<>;

 public:
  using typename base::guard_type;

  /// The same map with other entries, another order or other policies.
  template <class K, class V, class C = std::less<K>, class T = Traits>
  using rebind = herlihy_skip_list<K, V, T, C, Levels>;

  static constexpr map_properties properties{
      .name = "herlihy_skip_list",
      .find_progress = progress::lock_free,
      .update_progress = progress::blocking,
      .shape = balance::relaxed,
      .region_protection = true,
      .paper = "Herlihy, Lev, Luchangco and Shavit, A Simple Optimistic Skiplist Algorithm, SIROCCO 2007",
      .exchanges = true,
      .bidirectional = true};
  static constexpr std::string_view state_name = "lock, levels, mark";

  using base::base;
  /// No other thread may use the map any more.
  ~herlihy_skip_list() { base::destroy_all(); }

 private:
  [[nodiscard]] node* seek(const Key& key, place& at) const {
    return base::seek_place(key, at, [](const tower&) { return typename base::nothing{}; });
  }

  bool do_insert(guard_type&, const Key& key, const Value& value) {
    new_node fresh(*this);
    for (backoff pause;; pause.wait()) {
      place at;
      if (seek(key, at) != nullptr) return false;
      if (insert_at(at, fresh, key, value)) return true;
    }
  }

  bool do_assign(guard_type& guard, const Key& key, const Value& value) {
    new_node fresh(*this);
    guard.reserve(holder::retirements);
    for (backoff pause;; pause.wait()) {
      place at;
      node* const n = seek(key, at);
      if (n == nullptr) {
        if (insert_at(at, fresh, key, value)) return true;
        continue;
      }
      const auto word = fresh.word.get(value);
      if (const auto old = assign(*n, word)) {
        fresh.word.release();
        holder::retire(store_, guard, *old);
        return false;
      }
    }
  }

  template <class Function>
  std::optional<Value> do_update(guard_type& guard, const Key& key, Function&& f) {
    new_node fresh(*this);
    guard.reserve(1);
    for (backoff pause;; pause.wait(), fresh.word.reset()) {
      place at;
      node* const n = seek(key, at);
      if (n == nullptr) {
        const std::optional<Value> value = f(std::nullopt);
        if (!value || insert_at(at, fresh, key, *value)) return std::nullopt;
        continue;
      }
      update_outcome changed = update_at(at, *n, fresh, f);
      if (!changed.done) continue;
      if (changed.unlinked)
        base::retire_node(guard, n);
      else
        holder::retire(store_, guard, changed.old);
      return std::move(changed.before);
    }
  }

  bool do_erase(guard_type& guard, const Key& key) {
    guard.reserve(1);
    for (backoff pause;; pause.wait()) {
      place at;
      node* const n = seek(key, at);
      if (n == nullptr) return false;
      bool erased = false;
      {
        const lock_guard own(n->lock);
        erased = unlink(at, *n);
      }
      if (!erased) continue;
      base::retire_node(guard, n);
      return true;
    }
  }

 public:
  // Quiescent only, for tests and inspection.

  /// What is wrong with the structure, or null.
  [[nodiscard]] const char* check_invariants() const {
    if (is_seen_held(base::head_.begin.lock)) return "the head is locked";
    for (const node* n = base::first_at(0); n != nullptr; n = base::next_of(*n, 0)) {
      if (is_seen_held(n->lock)) return "a reachable node is locked";
      if (n->erased) return "a reachable node is marked";
    }
    return base::check_invariants();
  }

 private:
  /// The locks of the towers before a node.
  class held_towers {
   public:
    held_towers() noexcept = default;
    held_towers(const held_towers&) = delete;
    held_towers& operator=(const held_towers&) = delete;
    ~held_towers() {
      while (count_ != 0) held_[--count_]->lock.unlock();
    }

    /// Locks the towers of so many levels, from level 0 up. False if one of them has changed since the search.
    [[nodiscard]] bool lock(const place& at, unsigned levels) {
      for (unsigned level = 0; level < levels; ++level) {
        tower* const one = at.before[level];
        if (level == 0 || one != at.before[level - 1]) {
          one->lock.lock();
          held_[count_++] = one;
          if (one->erased) return false;
        }
        // relaxed: written under the lock only
        if (one->next(level).load(std::memory_order_relaxed) != at.after[level]) return false;
      }
      return true;
    }

   private:
    std::array<tower*, base::most_levels> held_;
    unsigned count_ = 0;
  };

  /// Links a new node where a seek has not found its key. False if a tower there has changed.
  bool insert_at(const place& at, new_node& fresh, const Key& key, const Value& value) {
    node& n = fresh.prepare(key, value, at);
    held_towers held;
    if (!held.lock(at, n.levels)) return false;
    for (unsigned level = 0; level < n.levels; ++level)
      n.next(level).store(at.after[level],
                          std::memory_order_relaxed);  // relaxed: published by the next store
    for (unsigned level = 0; level < n.levels; ++level) {
      // LP: insert(true), at level 0. order (1): publish, release
      at.before[level]->next(level).store(&n, std::memory_order_release);
    }
    base::reached(n.levels - 1U);
    fresh.linked();
    return true;
  }

  /// Stores the value; returns the word before, or nothing if the node is erased.
  static std::optional<typename holder::word> assign(node& n, typename holder::word fresh) {
    const lock_guard own(n.lock);
    if (n.erased) return std::nullopt;
    return base::replace_value(n, fresh);
  }

  struct update_outcome {
    bool done = false;  // else the search was too old
    bool unlinked = false;
    typename holder::word old{};
    std::optional<Value> before{};
  };
  template <class Function>
  update_outcome update_at(const place& at, node& n, new_node& fresh, Function& f) {
    const lock_guard own(n.lock);
    if (n.erased) return {};
    // relaxed: written under the lock only
    const auto old = n.value.load(std::memory_order_relaxed);
    std::optional<Value> before(holder::read(old));
    std::optional<Value> value = f(before);
    if (!value) return {.done = unlink(at, n), .unlinked = true, .old = old, .before = std::move(before)};
    base::replace_value(n, fresh.word.get(std::move(*value)));
    fresh.word.release();
    return {.done = true, .unlinked = false, .old = old, .before = std::move(before)};
  }

  /// Unlinks a node whose lock this thread holds, and marks it. False if a tower before it has changed; then it does nothing.
  static bool unlink(const place& at, node& n) {
    if (n.levels > at.levels) return false;  // the search did not see so high
    held_towers held;
    if (!held.lock(at, n.levels)) return false;
    n.erased = true;
    for (unsigned level = n.levels; level-- != 0;) {
      // relaxed: written under the lock only
      node* const after = n.next(level).load(std::memory_order_relaxed);
      // LP: erase(true), at level 0. order (1): unlink, release
      at.before[level]->next(level).store(after, std::memory_order_release);
    }
    return true;
  }
};

}  // namespace espalier
