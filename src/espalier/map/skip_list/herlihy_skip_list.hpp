#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#include "espalier/map/map_concept.hpp"
#include "espalier/map/map_traits.hpp"
#include "espalier/map/skip_list/locked_skip_list.hpp"
#include "espalier/map/skip_list/skip_list_map.hpp"
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
// Linearization points, orderings: those of locked_skip_list.hpp.
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
    : public locked_skip_list<
          herlihy_skip_list<Key, Value, Traits, Compare, Levels>, Key, Value,
          completed_traits<Traits, herlihy_skip_list_traits>, Compare,
          herlihy_tower<typename completed_traits<Traits, herlihy_skip_list_traits>::lock_type>, nothing_seen,
          Levels> {
  using traits = completed_traits<Traits, herlihy_skip_list_traits>;
  using base = locked_skip_list<herlihy_skip_list, Key, Value, traits, Compare,
                                herlihy_tower<typename traits::lock_type>, nothing_seen, Levels>;
  friend base;
  using typename base::node;
  using typename base::place;
  using typename base::tower;

 public:
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
  [[nodiscard]] static nothing_seen look(const tower&) noexcept { return {}; }

  [[nodiscard]] static const char* wrong_at_rest(const tower& t) noexcept {
    if (is_seen_held(t.lock)) return "a linked tower is locked";
    return t.erased ? "a linked tower is marked" : nullptr;
  }

  /// The lock of a node.
  class held_node {
   public:
    explicit held_node(node& n) : node_(n), hold_(n.lock) {}
    [[nodiscard]] static bool is_held() noexcept { return true; }
    [[nodiscard]] bool is_present() const noexcept { return !node_.erased; }
    void erase() noexcept { node_.erased = true; }

   private:
    node& node_;
    const lock_guard<typename traits::lock_type> hold_;
  };

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

    static void changed() noexcept {}

   private:
    std::array<tower*, base::most_levels> held_;
    unsigned count_ = 0;
  };
};

}  // namespace espalier
