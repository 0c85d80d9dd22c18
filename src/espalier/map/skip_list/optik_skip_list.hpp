#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#include "espalier/map/map_concept.hpp"
#include "espalier/map/map_traits.hpp"
#include "espalier/map/skip_list/locked_skip_list.hpp"
#include "espalier/map/skip_list/skip_list_map.hpp"
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
// Linearization points: those of locked_skip_list.hpp.
//
// Orderings: those of locked_skip_list.hpp, and
//   (1) leave (release) in sync/version_lock.hpp -> read, try_lock (acquire) in sync/version_lock.hpp: with a version come
//       the links that it stands for, because the version is read before them. The holder of a lock sees the latest stores.

namespace espalier {

struct optik_tower {
  explicit optik_tower(unsigned count) noexcept : levels(static_cast<std::uint8_t>(count)) {}
  version_lock lock;
  const std::uint8_t levels;
};

template <class Key, class Value, class Traits = map_traits, class Compare = std::less<Key>,
          class Levels = drawn_levels>
class optik_skip_list : public locked_skip_list<optik_skip_list<Key, Value, Traits, Compare, Levels>, Key,
                                                Value, completed_traits<Traits, skip_list_traits>, Compare,
                                                optik_tower, version_lock::version, Levels> {
  using base = locked_skip_list<optik_skip_list, Key, Value, completed_traits<Traits, skip_list_traits>,
                                Compare, optik_tower, version_lock::version, Levels>;
  friend base;
  using typename base::node;
  using typename base::place;
  using typename base::tower;

 public:
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
  [[nodiscard]] static version_lock::version look(const tower& t) noexcept { return t.lock.read(); }

  [[nodiscard]] static const char* wrong_at_rest(const tower& t) noexcept {
    return version_lock::is_held(t.lock.read()) ? "a linked tower is locked" : nullptr;
  }

  /// The lock of a node, if it is free. Released with its version unchanged, unless the node is erased.
  class held_node {
   public:
    explicit held_node(node& n) noexcept : node_(n.lock.try_lock(n.lock.read()) ? &n : nullptr) {}
    held_node(const held_node&) = delete;
    held_node& operator=(const held_node&) = delete;
    ~held_node() {
      if (node_ != nullptr) node_->lock.revert();
    }
    [[nodiscard]] bool is_held() const noexcept { return node_ != nullptr; }
    [[nodiscard]] bool is_present() const noexcept { return is_held(); }
    void erase() noexcept { node_ = nullptr; }

   private:
    node* node_;
  };

  /// The locks of the towers before a node. Released with their versions unchanged, unless changed() was called.
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
    void changed() noexcept {
      while (count_ != 0) held_[--count_]->lock.unlock();
    }

   private:
    std::array<tower*, base::most_levels> held_;
    unsigned count_ = 0;
  };
};

}  // namespace espalier
