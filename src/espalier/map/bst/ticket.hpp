#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <utility>

#include "espalier/map/bst/bst_traits.hpp"
#include "espalier/map/bst/external_map.hpp"
#include "espalier/map/bst/tree_at_rest.hpp"
#include "espalier/map/map_concept.hpp"
#include "espalier/map/map_traits.hpp"
#include "espalier/memory/clustered.hpp"
#include "espalier/sync/backoff.hpp"
#include "espalier/sync/version_lock.hpp"

// ticket: external binary search tree with a version lock for each edge (BST-TK).
// David, Guerraoui and Trigonakis, "Asynchronized Concurrency: The Secret to Scaling Concurrent Search Data
// Structures", ASPLOS 2015.
//
// Essence. Keys lie in leaves; an internal node (router) guards each of its two edges by a version. An update seeks
// without locks and reads each version before its edge. It locks an edge *at the version that it read*, which is
// acquisition and validation at once. An insert locks the edge above the leaf. An erase locks the edge to the parent,
// then both edges of the parent by one CAS. It never unlocks these two: locked for ever means removed.
//
// Deviations from the paper:
//  1. No sentinel keys: the tree hangs on the left edge of head_, a router of the map itself which has no key and is
//     never removed. The edge is null for the empty map; a leaf there is erased under its lock.
//  2. Versions have 32 bits, one of them the lock, rather than 16 + 16. A stale attempt to lock an edge can succeed
//     only after 2^31 updates of that edge during one operation.
//  3. Values, overwritten in place. A writer locks the edge to the leaf, and unlocks it with its version unchanged: an
//     erase that returns the value holds the same edge. Null children mark a leaf, not its value.
//  4. Memory is reclaimed (below), and not read after that; the paper's code frees too early.
//
// Invariants. An edge changes only while its lock is held. A removed router keeps both locks held and its edges
// unchanged. The range of keys below a node never shrinks while the node is linked.
//
// Progress. find, contains and scan take no lock, write nothing shared and never retry. They are lock-free, not
// wait-free: inserts may keep extending the path ahead of them. Updates block one another: a holder that is descheduled
// stops updates of that edge.
//
// Placement. Routers and leaves are apart. A router is requested near its parent, because a seek comes from there
// (memory/clustered.hpp).
//
// Reclamation. The erase that stores the grandparent's edge detaches the parent and the leaf. It alone retires both,
// after unlocking. (I1) The parent hung on that edge alone, and the leaf on the parent. (I2) It holds all three locks.
// (I3) Edges are written with new nodes, or with the sibling. The sibling stays linked: it hung on an edge that this
// erase holds.
//
// Linearization points
//   insert, insert_or_assign -> true     link: the store of the edge
//   insert -> false, assign -> false     the read of the edge to the leaf; the store of the value
//   erase -> true                        unlink: the store of the grandparent's edge; unlink_held: that of head_'s
//   erase -> false, find, contains       the read of the edge to the leaf; for the value see below
//   update                               as the insert, the assignment or the erase that it amounts to
// A find that reads the value of a leaf that was unlinked meanwhile counts immediately before that. The value does not
// change afterwards, and the leaf was linked when the find began.
//
// Orderings
//   (1) link, unlink, unlink_held (release) -> read_edge (acquire), read_edge (acquire) in external_map.hpp: a thread
//       that reaches a node sees it constructed. unlink_held stores null, which needs no release.
//   (2) leave (release) in sync/version_lock.hpp -> read, try_lock, try_lock_both (acquire) in sync/version_lock.hpp:
//       with a version comes the edge that it stands for, because the version is read before the edge. The holder of
//       a lock sees the latest store of the edge, and of the value of the leaf to which the edge leads.
//   (3) replace_value (release) -> read_value (acquire) in map/bst/external_map.hpp: a thread that finds a value sees
//       its cell, and what its writer did before.

namespace espalier {

/// The default policies.
using ticket_traits = plain_traits::with_placement<clustered>;

template <class Key, class Value, class Traits = map_traits, class Compare = std::less<Key>,
          class VersionLock = version_lock_pair>
class ticket : public external_map<ticket<Key, Value, Traits, Compare, VersionLock>, Key, Value,
                                   completed_traits<Traits, ticket_traits>, Compare> {
  using base = external_map<ticket, Key, Value, completed_traits<Traits, ticket_traits>, Compare>;
  using traits = typename base::traits_type;
  friend base;
  using base::equal;
  using base::side;
  using base::store_;
  using typename base::holder;
  using typename base::store;
  using lock_side = typename VersionLock::side;
  using version = typename VersionLock::version;

  struct node;
  using edge = std::atomic<node*>;

  // Search fields first: 24 of 32 bytes, and the compact layout aligns them to 32. Only routers have a lock and only
  // leaves have a value: both share a word. Other implementations of the algorithm usually need 40 bytes.
  struct compact_fields {
    Key key;
    std::array<edge, 2> child;  // both null in a leaf, neither in a router
    union {
      VersionLock lock;                          // of a router's two edges
      std::atomic<typename holder::word> value;  // of a leaf
    };

    compact_fields(const Key& k, typename holder::word v) noexcept : key(k), child{}, value(v) {}
    compact_fields(const Key& k, node* left, node* right) noexcept : key(k), child{left, right}, lock{} {}
  };

  // As in the authors' code: value and lock are apart, and each node has a line.
  struct published_fields {
    Key key;
    std::atomic<typename holder::word> value;
    std::array<edge, 2> child;
    VersionLock lock;
    std::array<std::byte, 24> padding;

    published_fields(const Key& k, typename holder::word v) noexcept : key(k), value(v), child{}, lock{} {}
    published_fields(const Key& k, node* left, node* right) noexcept
        : key(k), value{}, child{left, right}, lock{} {}
  };

  static constexpr bool compact = traits::layout_type::shape == node_shape::compact;
  using fields = std::conditional_t<compact, compact_fields, published_fields>;

  using padded = padded_fields<fields, typename traits::layout_type>;
  struct alignas(traits::layout_type::node_align(sizeof(fields), alignof(fields))) node : padded {
    using padded::padded;
    [[nodiscard]] bool is_leaf() const noexcept {
      // relaxed: null or not is fixed at construction.
      return this->child[0].load(std::memory_order_relaxed) == nullptr;
    }
  };

  static_assert(edge::is_always_lock_free, "this processor has no lock-free atomics of that size");
  static_assert(sizeof(Key) != 8 || alignof(Key) != 8 || sizeof(typename holder::word) != 8 ||
                    (offsetof(compact_fields, key) == 0 && offsetof(compact_fields, child) == 8 &&
                     offsetof(compact_fields, lock) == 24 && offsetof(compact_fields, value) == 24 &&
                     sizeof(compact_fields) == 32 && sizeof(published_fields) == 64),
                "the layout of a node, on which the measured figures rest, has changed");

 public:
  using typename base::guard_type;

  /// The same map with other entries, another order or other policies.
  template <class K, class V, class C = std::less<K>, class T = Traits>
  using rebind = ticket<K, V, T, C, VersionLock>;

  static constexpr map_properties properties{
      .name = "ticket",
      .find_progress = progress::lock_free,
      .update_progress = progress::blocking,
      .shape = balance::none,
      .region_protection = true,
      .paper = "David, Guerraoui and Trigonakis, Asynchronized Concurrency, ASPLOS 2015",
      .exchanges = true,
      .bidirectional = true};

  static constexpr std::size_t node_bytes = sizeof(node);
  static constexpr auto node_members = [] {
    if constexpr (compact)
      return std::to_array<node_member>(
          {{"key", offsetof(fields, key), sizeof(Key), search_use::all},
           {"child", offsetof(fields, child), sizeof(fields::child), search_use::half},
           {"lock / value", offsetof(fields, lock), sizeof(VersionLock)}});
    else
      return std::to_array<node_member>(
          {{"key", offsetof(fields, key), sizeof(Key), search_use::all},
           {"value", offsetof(fields, value), sizeof(fields::value)},
           {"child", offsetof(fields, child), sizeof(fields::child), search_use::half},
           {"lock", offsetof(fields, lock), sizeof(fields::lock)},
           {"padding", offsetof(fields, padding), sizeof(fields::padding)}});
  }();

  using base::base;
  /// No other thread may use the map any more.
  ~ticket() { base::destroy_all(top()); }

 private:
  using typename base::contract;
  friend contract;

  using insertion_type = insertion<store, node, holder, Key, Value, Compare>;

  bool do_insert(guard_type&, const Key& key, const Value& value) {
    insertion_type fresh(store_, base::key_comp());
    for (backoff pause;; pause.wait()) {
      const seek_record at = seek(key);
      if (found(at, key)) return false;
      if (link(at, fresh, key, value)) return true;
    }
  }

  bool do_assign(guard_type& guard, const Key& key, const Value& value) {
    insertion_type fresh(store_, base::key_comp());
    guard.reserve(holder::retirements);
    for (backoff pause;; pause.wait()) {
      const seek_record at = seek(key);
      if (!found(at, key)) {
        if (link(at, fresh, key, value)) return true;
        continue;
      }
      const auto word = fresh.word.get(value);
      if (!at.to_leaf.try_lock()) continue;
      const auto old = replace_value(at, word);
      fresh.word.release();
      holder::retire(store_, guard, old);
      return false;
    }
  }

  template <class Function>
  std::optional<Value> do_update(guard_type& guard, const Key& key, Function&& f) {
    insertion_type fresh(store_, base::key_comp());
    guard.reserve(2);
    for (backoff pause;; pause.wait(), fresh.word.reset()) {
      const seek_record at = seek(key);
      if (!found(at, key)) {
        const std::optional<Value> value = f(std::nullopt);
        if (!value || link(at, fresh, key, *value)) return std::nullopt;
        continue;
      }
      if (!at.to_leaf.try_lock()) continue;
      held_edge hold(at.to_leaf);
      // relaxed: written under the lock only
      const auto old = at.leaf->value.load(std::memory_order_relaxed);
      std::optional<Value> before(holder::read(old));
      if (std::optional<Value> value = f(before)) {
        const auto word = fresh.word.get(std::move(*value));
        hold.release();
        replace_value(at, word);
        fresh.word.release();
        holder::retire(store_, guard, old);
        return before;
      }
      if (!unlink_held(at)) continue;
      hold.release();
      base::retire_node(guard, at.leaf);
      if (at.parent != &head_) base::retire_node(guard, at.parent);
      return before;
    }
  }

  bool do_erase(guard_type& guard, const Key& key) {
    guard.reserve(2);
    for (backoff pause;; pause.wait()) {
      const seek_record at = seek(key);
      if (!found(at, key)) return false;
      if (at.parent == &head_ ? at.to_leaf.try_lock() && unlink_held(at) : unlink(at)) {
        base::retire_node(guard, at.leaf);
        if (at.parent != &head_) base::retire_node(guard, at.parent);
        return true;
      }
    }
  }

 public:
  // Quiescent only, for tests and inspection.

  /// What is wrong with the structure, or null.
  [[nodiscard]] const char* check_invariants() const {
    return tree_at_rest::check_external(base::key_comp(), top(), [](const node* n) -> const char* {
      if (n->is_leaf()) return nullptr;
      const bool held = VersionLock::is_held(n->lock.read(lock_side::left)) ||
                        VersionLock::is_held(n->lock.read(lock_side::right));
      return held ? "a reachable node is locked" : nullptr;
    });
  }

 private:
  /// An edge as an update saw it: its node, its index, and its version.
  struct edge_record {
    node* of;
    std::size_t index;
    version seen;

    [[nodiscard]] edge& where() const noexcept { return of->child[index]; }
    [[nodiscard]] bool try_lock() const noexcept { return of->lock.try_lock(side_of(index), seen); }
    void unlock() const noexcept { of->lock.unlock(side_of(index), seen); }
    void revert() const noexcept { of->lock.revert(side_of(index), seen); }
  };

  struct seek_record {
    edge_record to_parent;  // unset where the parent is head_
    edge_record to_leaf;
    node* parent;
    node* leaf;          // null where the map is empty
    version other_seen;  // of the parent's other edge
  };

  /// Releases a held edge with its version unchanged when the scope is left, unless release() was called.
  class held_edge {
   public:
    explicit held_edge(const edge_record& edge) noexcept : edge_(&edge) {}
    held_edge(const held_edge&) = delete;
    held_edge& operator=(const held_edge&) = delete;
    ~held_edge() {
      if (edge_ != nullptr) edge_->revert();
    }
    void release() noexcept { edge_ = nullptr; }

   private:
    const edge_record* edge_;
  };

  static lock_side side_of(std::size_t index) noexcept {
    return index == 0 ? lock_side::left : lock_side::right;
  }

  [[nodiscard]] bool found(const seek_record& at, const Key& key) const {
    return at.leaf != nullptr && equal(at.leaf->key, key);
  }

  // order (1): read_edge, acquire
  [[nodiscard]] node* top() const noexcept { return head_.child[0].load(std::memory_order_acquire); }

  [[nodiscard]] seek_record seek(const Key& key) const {
    seek_record at{{}, {&head_, 0, 0}, &head_, nullptr, 0};
    // Each version is read before its edge, as (2) requires.
    at.to_leaf.seen = head_.lock.read(lock_side::left);
    at.leaf = top();
    while (at.leaf != nullptr && !at.leaf->is_leaf()) {
      at.to_parent = at.to_leaf;
      at.parent = at.leaf;
      const std::size_t s = side(key, *at.parent);
      at.other_seen = at.parent->lock.read(side_of(1 - s));
      at.to_leaf = {at.parent, s, at.parent->lock.read(side_of(s))};
      at.leaf = at.parent->child[s].load(std::memory_order_acquire);  // order (1): read_edge, acquire
    }
    return at;
  }

  /// Links a new leaf where a seek has not found its key. False if the edge has changed.
  bool link(const seek_record& at, insertion_type& fresh, const Key& key, const Value& value) {
    node* const top_node = fresh.prepare(key, value, at.leaf, at.parent);
    if (!at.to_leaf.try_lock()) return false;
    // LP: insert(true). order (1): link, release
    at.to_leaf.where().store(top_node, std::memory_order_release);
    at.to_leaf.unlock();
    fresh.linked();
    return true;
  }

  /// Stores a value, and unlocks the edge to the leaf, which has not changed. Returns the word before.
  static auto replace_value(const seek_record& at, typename holder::word fresh) noexcept {
    // relaxed: written under the lock only
    const auto old = at.leaf->value.load(std::memory_order_relaxed);
    // LP: insert_or_assign(false). order (3): replace_value, release
    at.leaf->value.store(fresh, std::memory_order_release);
    at.to_leaf.revert();
    return old;
  }

  /// Unlinks a leaf whose edge this thread holds, and its parent. If it cannot, it changes nothing.
  bool unlink_held(const seek_record& at) noexcept {
    if (at.parent == &head_) {
      // order (1): unlink_held, release
      at.to_leaf.where().store(nullptr, std::memory_order_release);  // LP: erase(true), update to nothing
      at.to_leaf.unlock();
      return true;
    }
    if (!at.to_parent.try_lock()) return false;
    if (!at.parent->lock.try_lock(side_of(1 - at.to_leaf.index), at.other_seen)) {
      at.to_parent.revert();
      return false;
    }
    replace_by_sibling(at);
    return true;
  }

  /// Unlinks the leaf and its parent; the sibling moves up.
  bool unlink(const seek_record& at) noexcept {
    if (!at.to_parent.try_lock()) return false;
    const std::size_t s = at.to_leaf.index;
    const version left = s == 0 ? at.to_leaf.seen : at.other_seen;
    const version right = s == 0 ? at.other_seen : at.to_leaf.seen;
    if (!at.parent->lock.try_lock_both(left, right)) {
      at.to_parent.revert();
      return false;
    }
    replace_by_sibling(at);
    return true;
  }

  /// Puts the sibling in the place of the parent. The three edges are held.
  void replace_by_sibling(const seek_record& at) noexcept {
    // relaxed: by (2) this thread sees the latest store of this edge, and no other thread may store now.
    node* const sibling = at.parent->child[1 - at.to_leaf.index].load(std::memory_order_relaxed);
    // LP: erase(true). order (1): unlink, release
    at.to_parent.where().store(sibling, std::memory_order_release);
    at.to_parent.unlock();
  }

  alignas(hw::false_sharing_bytes) mutable node head_{Key{}, nullptr, nullptr};
};

}  // namespace espalier
