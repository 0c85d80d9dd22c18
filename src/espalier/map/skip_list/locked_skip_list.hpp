#pragma once

#include <array>
#include <atomic>
#include <optional>
#include <utility>

#include "espalier/map/map_traits.hpp"
#include "espalier/map/skip_list/skip_list_map.hpp"
#include "espalier/sync/backoff.hpp"

// The updates of skip lists that seek without locks, and then lock the towers that they change: the same for all ways to lock and
// to validate.

namespace espalier {

/// The base of such a skip list. The algorithm derives from it, makes it a friend, and provides
///   look(tower)      what a search remembers of a tower, a Seen, before it reads the tower's links
///   held_towers      the locks of the towers before a node, released by its destructor. lock(place, levels) locks those of so many
///                    levels, from level 0 up: false if one of them has changed since the search. changed() is called once the
///                    links are stored
///   held_node        the lock of a node, released by its destructor. Its constructor takes the node; is_held() says whether it has
///                    the lock, is_present() whether also the node is not erased. Towers before an erased node have changed, so an
///                    erase need not ask. erase() is called where the erase cannot fail any more
///   wrong_at_rest(tower)  what is wrong with a tower at rest, or null
///
/// Linearization points
///   insert, insert_or_assign -> true     publish: the store of the link at level 0
///   insert -> false                      as find
///   assign -> false, update to a value   the store of the value
///   erase -> true, update to nothing     unlink: the store of the link at level 0
///   erase -> false, find, contains       as skip_list_map.hpp says
///
/// Orderings
///   (1) publish, unlink (release) -> read_link (acquire) in map/skip_list/skip_list_map.hpp: a thread that reaches a node
///       sees it constructed, and the links that were stored before.
template <class Map, class Key, class Value, class Traits, class Compare, class State, class Seen,
          class Levels>
class locked_skip_list : public skip_list_map<Map, Key, Value, Traits, Compare, State, false, Levels> {
  using base = skip_list_map<Map, Key, Value, Traits, Compare, State, false, Levels>;

 public:
  using typename base::guard_type;

  using base::base;

  // Quiescent only, for tests and inspection.

  /// What is wrong with the structure, or null.
  [[nodiscard]] const char* check_invariants() const {
    const char* wrong = Map::wrong_at_rest(base::head_.begin);
    for (const node* n = base::first_at(0); wrong == nullptr && n != nullptr; n = base::next_of(*n, 0))
      wrong = Map::wrong_at_rest(*n);
    return wrong != nullptr ? wrong : base::check_invariants();
  }

 protected:
  using typename base::contract;
  friend contract;
  using base::store_;
  using typename base::holder;
  using typename base::new_node;
  using typename base::node;
  using typename base::tower;
  using place = typename base::template place<Seen>;

  // No other thread may use the map any more.
  ~locked_skip_list() = default;

 private:
  [[nodiscard]] node* seek(const Key& key, place& at) const {
    return base::seek_place(key, at, [](const tower& t) { return Map::look(t); });
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
      typename holder::word old{};
      {
        const typename Map::held_node own(*n);
        if (!own.is_present()) continue;
        old = base::replace_value(*n, word);
      }
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
      typename holder::word old{};
      std::optional<Value> before;
      bool unlinked = false;
      {
        typename Map::held_node own(*n);
        if (!own.is_present()) continue;
        // relaxed: written under the lock only
        old = n->value.load(std::memory_order_relaxed);
        before.emplace(holder::read(old));
        std::optional<Value> value = f(before);
        unlinked = !value;
        if (unlinked) {
          if (!unlink(at, *n, own)) continue;
        } else {
          base::replace_value(*n, fresh.word.get(std::move(*value)));
          fresh.word.release();
        }
      }
      if (unlinked)
        base::retire_node(guard, n);
      else
        holder::retire(store_, guard, old);
      return before;
    }
  }

  bool do_erase(guard_type& guard, const Key& key) {
    guard.reserve(1);
    for (backoff pause;; pause.wait()) {
      place at;
      node* const n = seek(key, at);
      if (n == nullptr) return false;
      {
        typename Map::held_node own(*n);
        if (!own.is_held() || !unlink(at, *n, own)) continue;
      }
      base::retire_node(guard, n);
      return true;
    }
  }

  /// Links a new node where a seek has not found its key. False if a tower there has changed.
  bool insert_at(const place& at, new_node& fresh, const Key& key, const Value& value) {
    node& n = fresh.prepare(key, value, at);
    typename Map::held_towers held;
    if (!held.lock(at, n.levels)) return false;
    for (unsigned level = 0; level < n.levels; ++level)
      n.next(level).store(at.after[level],
                          std::memory_order_relaxed);  // relaxed: published by the next store
    for (unsigned level = 0; level < n.levels; ++level) {
      // LP: insert(true), at level 0. order (1): publish, release
      at.before[level]->next(level).store(&n, std::memory_order_release);
    }
    base::reached(n.levels - 1U);
    held.changed();
    fresh.linked();
    return true;
  }

  /// Unlinks a node whose lock this thread holds. False if a tower before it has changed; then it does nothing.
  template <class HeldNode>
  static bool unlink(const place& at, node& n, HeldNode& own) {
    if (n.levels > at.levels) return false;  // the search did not see so high
    typename Map::held_towers held;
    if (!held.lock(at, n.levels)) return false;
    own.erase();
    for (unsigned level = n.levels; level-- != 0;) {
      // relaxed: written under the lock only
      node* const after = n.next(level).load(std::memory_order_relaxed);
      // LP: erase(true), at level 0. order (1): unlink, release
      at.before[level]->next(level).store(after, std::memory_order_release);
    }
    held.changed();
    return true;
  }
};

}  // namespace espalier
