#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>

#include "espalier/map/map_concept.hpp"
#include "espalier/map/map_traits.hpp"
#include "espalier/map/skip_list/skip_list_map.hpp"
#include "espalier/sync/backoff.hpp"
#include "espalier/sync/version_lock.hpp"

// optik_skip_list: skip list with a version lock for each node.
// Guerraoui and Trigonakis, "Optimistic Concurrency with OPTIK", PPoPP 2016, section 5.3.
//
// Essence. An update seeks without locks, and reads the version of each tower before its links. It locks the towers that it
// will change *at the versions that it read*, which is acquisition and validation at once. If a version has changed, it
// unlocks the others unchanged, and starts again. An erase never unlocks its node: locked for ever means removed.
//
// Deviations from the paper, and from ASCYLIB's code of its authors:
//  1. An insert locks all towers that it will change before it links its node anywhere. The authors' links as many levels as
//     it could lock, and seeks again for the others, while a flag in the node keeps an erase away.
//  2. An insert takes effect when it links its node at level 0, and so does an erase when it unlinks it there: a find reads no
//     flag. An erase cannot lock a tower before the node until the insert has linked all.
//  3. The head has no key, and there is no tail.
//  4. Values, overwritten under the lock of their node, which is released with its version unchanged: no link has changed.
//  5. Memory is reclaimed (below).
//
// Invariants. A link changes under the lock of its tower. The list of a level has the nodes of the one above. A removed node
// stays locked, and what it leads to stays as it was.
//
// No thread waits for a lock. A version that was read while the lock was held cannot be locked: so an update that stands on a
// removed node starts again.
//
// Progress. find, contains and scan take no lock, write nothing shared and never retry. They are lock-free, not wait-free:
// inserts may go on extending the way ahead. Updates block one another: a holder that is descheduled stops updates of the
// towers that it has locked.
//
// Reclamation. The erase retires the node that it has unlinked, after it has unlocked the others. (I1) It was unlinked at each
// level of its tower: its insert linked it at all of them under the locks that the erase has taken since. (I2) The node stays
// locked, so no other erase locks it. (I3) Links are written with a new node, or with those of the erased node, which are frozen.
// They lead to nodes that are linked at that level: an erase of one of these has to lock the erased node, or the tower before it.
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
//   (2) leave (release) in sync/version_lock.hpp -> read, try_lock (acquire) in sync/version_lock.hpp: with a version come
//       the links that it stands for, because the version is read before them. The holder of a lock sees the latest stores.

namespace espalier {

struct optik_tower {
  explicit optik_tower(unsigned count) noexcept : levels(static_cast<std::uint8_t>(count)) {}
  version_lock lock;
  const std::uint8_t levels;
};

template <class Key, class Value, class Traits = map_traits, class Compare = std::less<Key>,
          class Levels = drawn_levels>
class optik_skip_list
    : public skip_list_map<optik_skip_list<Key, Value, Traits, Compare, Levels>, Key, Value,
                           completed_traits<Traits, skip_list_traits>, Compare, optik_tower, false, Levels> {
  using base = skip_list_map<optik_skip_list, Key, Value, completed_traits<Traits, skip_list_traits>, Compare,
                             optik_tower, false, Levels>;
  friend base;
  using base::store_;
  using typename base::contract;
  friend contract;
  using typename base::holder;
  using typename base::new_node;
  using typename base::node;
  using typename base::tower;
  using version = version_lock::version;
  using place = typename base::template place<version>;

 public:
  using typename base::guard_type;

  /// The same map with other entries, another order or other policies.
  template <class K, class V, class C = std::less<K>, class T = Traits>
  using rebind = optik_skip_list<K, V, T, C, Levels>;

  static constexpr map_properties properties{
      .name = "optik_skip_list",
      .find_progress = progress::lock_free,
      .update_progress = progress::blocking,
      .shape = balance::relaxed,
      .region_protection = true,
      .paper = "Guerraoui and Trigonakis, Optimistic Concurrency with OPTIK, PPoPP 2016",
      .exchanges = true,
      .bidirectional = true};
  static constexpr std::string_view state_name = "version lock, levels";

  using base::base;
  /// No other thread may use the map any more.
  ~optik_skip_list() { base::destroy_all(); }

 private:
  [[nodiscard]] node* seek(const Key& key, place& at) const {
    return base::seek_place(key, at, [](const tower& t) { return t.lock.read(); });
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
      if (!n->lock.try_lock(n->lock.read())) continue;
      const auto old = base::replace_value(*n, word);
      n->lock.revert();
      fresh.word.release();
      holder::retire(store_, guard, old);
      return false;
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
      if (!n->lock.try_lock(n->lock.read())) continue;
      held_node own(*n);
      // relaxed: written under the lock only
      const auto old = n->value.load(std::memory_order_relaxed);
      std::optional<Value> before(holder::read(old));
      if (std::optional<Value> value = f(before)) {
        base::replace_value(*n, fresh.word.get(std::move(*value)));
        fresh.word.release();
        own.revert();
        holder::retire(store_, guard, old);
        return before;
      }
      if (!unlink(at, *n)) continue;
      own.keep();
      base::retire_node(guard, n);
      return before;
    }
  }

  bool do_erase(guard_type& guard, const Key& key) {
    guard.reserve(1);
    for (backoff pause;; pause.wait()) {
      place at;
      node* const n = seek(key, at);
      if (n == nullptr) return false;
      if (!n->lock.try_lock(n->lock.read())) continue;
      held_node own(*n);
      if (!unlink(at, *n)) continue;
      own.keep();
      base::retire_node(guard, n);
      return true;
    }
  }

 public:
  // Quiescent only, for tests and inspection.

  /// What is wrong with the structure, or null.
  [[nodiscard]] const char* check_invariants() const {
    if (version_lock::is_held(base::head_.begin.lock.read())) return "the head is locked";
    for (const node* n = base::first_at(0); n != nullptr; n = base::next_of(*n, 0)) {
      if (version_lock::is_held(n->lock.read())) return "a reachable node is locked";
    }
    return base::check_invariants();
  }

 private:
  /// Releases a node's lock with its version unchanged when the scope is left, unless keep() was called.
  class held_node {
   public:
    explicit held_node(node& n) noexcept : node_(&n) {}
    held_node(const held_node&) = delete;
    held_node& operator=(const held_node&) = delete;
    ~held_node() { revert(); }
    void revert() noexcept {
      if (node_ != nullptr) std::exchange(node_, nullptr)->lock.revert();
    }
    void keep() noexcept { node_ = nullptr; }

   private:
    node* node_;
  };

  /// The locks of the towers before a node. Released with their versions unchanged, unless unlock() was called.
  class held_towers {
   public:
    held_towers() noexcept = default;
    held_towers(const held_towers&) = delete;
    held_towers& operator=(const held_towers&) = delete;
    ~held_towers() {
      while (count_ != 0) held_[--count_]->lock.revert();
    }

    /// Locks the towers of so many levels. False if one of them has changed since the search.
    [[nodiscard]] bool lock(const place& at, unsigned levels) noexcept {
      for (unsigned level = 0; level < levels; ++level) {
        tower* const one = at.before[level];
        if (level != 0 && one == at.before[level - 1]) continue;
        if (!one->lock.try_lock(at.seen[level])) return false;
        held_[count_++] = one;
      }
      return true;
    }
    void unlock() noexcept {
      while (count_ != 0) held_[--count_]->lock.unlock();
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
    held.unlock();
    fresh.linked();
    return true;
  }

  /// Unlinks a node whose lock this thread holds. False if a tower before it has changed; then it does nothing.
  static bool unlink(const place& at, node& n) noexcept {
    if (n.levels > at.levels) return false;
    held_towers held;
    if (!held.lock(at, n.levels)) return false;
    for (unsigned level = n.levels; level-- != 0;) {
      assert(at.after[level] == &n && "the node was linked when the versions were read");
      // relaxed: written under the lock only
      node* const after = n.next(level).load(std::memory_order_relaxed);
      // LP: erase(true), at level 0. order (1): unlink, release
      at.before[level]->next(level).store(after, std::memory_order_release);
    }
    held.unlock();
    return true;
  }
};

}  // namespace espalier
