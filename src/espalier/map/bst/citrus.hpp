#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>

#include "espalier/hw/cache_line.hpp"
#include "espalier/map/bst/bst_traits.hpp"
#include "espalier/map/bst/internal_map.hpp"
#include "espalier/map/bst/tree_at_rest.hpp"
#include "espalier/map/map_concept.hpp"
#include "espalier/map/map_traits.hpp"
#include "espalier/map/node_store.hpp"
#include "espalier/map/scan.hpp"
#include "espalier/reclaim/rcu.hpp"
#include "espalier/sync/backoff.hpp"
#include "espalier/sync/lock_concept.hpp"
#include "espalier/sync/std_mutex.hpp"

// citrus: internal binary search tree with a lock in each node, searched in RCU read sections.
// Arbel and Attiya, "Concurrent Updates with RCU: Search Tree as an Example", PODC 2014.
//
// Essence. A seek takes no lock and runs in a read section. An update seeks likewise, leaves the section, locks
// the two nodes at which it arrived, and validates: the upper node is not removed, and its edge is still the
// one that the seek read. An empty edge looks like any other empty edge, so each edge has a tag that changes
// whenever the edge becomes empty. An erase of a node with two children puts a copy of its successor in the
// node's place. It waits for a grace period: every seek that may still need the successor in its old place has
// then ended. Only then does it unlink the successor.
//
// Deviations from the paper and from the authors' code:
//  1. No sentinel keys: the tree hangs on the left edge of head_, a node of the map itself that has no key and
//     is never removed.
//  2. The edge above the successor is its parent's left one, or the copy's right one if the successor is the
//     erased node's child. The tag of that edge changes when the edge becomes empty. Published code tests and
//     changes the right one in both cases: an insert that noted the left edge as empty, before the successor
//     came there and moved up, then links its key where no seek will look.
//  3. The tag is read inside the read section. The grace period then orders the read before the change.
//  4. synchronize() begins with a fence (reclaim/rcu.hpp). Published code reads the readers' counts without
//     one, and misses readers that have just begun.
//  5. Values. The paper has none, and published code with values loses that of the successor. The copy takes
//     the value while the successor is locked; an assignment takes the node's lock, so no value changes
//     between.
//  6. Memory is reclaimed (below). That needs a second, outer protection, the guard, because an update reaches
//     nodes outside its read section. Guard and section are of different domains. Otherwise synchronize()
//     would wait for threads that wait for its caller's locks.
//  7. The copy is allocated before any lock is taken.
//  8. The tag changes before the edge is stored, not after: a seek that reads the empty edge reads its tag.
//  9. Validation does not read the mark of the lower node: a node is marked, and unlinked from its edge, under
//     the lock of the upper node.
//
// Invariants. An edge, its tag and `removed` change only while the node's lock is held, and not after the
// node was marked as removed. A node and the one above it are locked when it is removed. Keys do not change
// once a node is linked. Keys left of a node are smaller than its key, keys right of it larger, except between
// copy and removal of a successor. Its key is then in two nodes: in the copy, and leftmost in the right subtree
// of the copy. Both nodes are locked, and the latter is unchanged.
//
// Why a validated empty edge is the place of the key x that the seek looked for. The range of keys below an
// edge only grows, except when a successor s moves up: keys between the erased one and s then lie to the left
// of the copy, while they lay at the left edge of s. Let x be such a key, and let the seek pass the erased node
// before the copy was there (otherwise it was led right). Then it read its tag before the grace period ended.
// If the edge that it found empty is that of s, s is marked as removed. If not, s came to lie below that edge
// later; the edge has become empty again since, by the removal of s or after it, and its tag has changed. Tags
// have 32 bits: validation fails to notice only if the thread sleeps between its seek and its lock while one
// edge becomes empty 2^32 times.
//
// Why the successor found is the right one. The walk to it goes left only, without a section, from the right
// child of a locked node. Nodes change their places only upwards, past removed ones, and a copy takes the
// place of what it replaces. So each node that the walk meets is on the left spine of that subtree or is
// removed. A node that is not removed and has no left child, once it is locked, is the spine's end.
//
// Order of locks. Put all nodes that ever existed in one line: a new leaf at its end, a copy just behind the
// node that it replaces. Then each edge that ever existed leads forwards. A thread waits for locks along edges
// only, in the order parent, node, copy, the successor's parent, successor, hence forwards: waiting threads
// form no circle. synchronize() is called with up to five locks held. It waits for read sections only, and
// those take no lock.
//
// Progress. find and contains take no lock and never retry; they write nothing but their thread's own count
// of sections. They are lock-free, not wait-free: inserts may go on extending the path right ahead of a seek.
// A scan is one seek for each entry. Updates block one another. A lock holder that is descheduled stops updates
// of its nodes. A reader that is descheduled inside its section stops the erases of nodes with two children,
// and the threads that wait for their locks. Visitors of scans run outside of sections.
//
// Scans. Each step of a scan seeks the place just behind the last key; its answer is the key at which it turned
// left last. Suppose that a larger key, present throughout, is smaller than the answer, or that there is no
// answer. Then the seek for that key, which takes the same edges, would miss it too. During a move the
// successor's key is in the copy and below it on the right. A step that looks for what lies behind that key
// passes both, and answers increase strictly, so no key comes twice.
//
// Reclamation. The erase that marks a node retires it, after it has released all locks. It retires the erased
// node with its value's cell, and the successor without its cell, which has moved to the copy. (I1) The erased
// node is out of reach when its edge is overwritten, the successor when its own edge is, behind the grace
// period; only then are they retired. (I2) Only the holder of a node's lock marks the node, and only if it is
// not marked. (I3) Edges are written with new nodes, or with children of a locked node that is not marked; these
// stay linked, because their removal needs that lock. The grace period frees nothing: threads hold nodes outside
// their sections.
//
// Linearization points
//   insert, insert_or_assign -> true   link: the store of the edge
//   insert_or_assign -> false          assign: the store of the value
//   update                             as the insert, the erase or the assignment that it amounts to
//   erase -> true                      unlink, or swing: the store of the edge to the erased node
//   present: find, contains, insert    the read of the edge to the node; if the node above it was removed
//                                      before, the moment of that removal, when the key was there
//   absent: find, contains, erase      the read of the empty edge; if the node that has it was removed, or a
//                                      move overtook the seek, the moment of that removal or of that swing,
//                                      when the key was not there
//
// Orderings
//   (1) link, unlink, swing (release) -> read_edge (acquire): nodes are seen constructed; a seek that reads an empty
//       edge reads a tag at least as new.
//   (2) publish_value (release) -> read_value (acquire): a cell is seen constructed, and what its writer did before
//       is visible.
//   (3) unlock (lock) in sync/lock_concept.hpp -> lock (lock) in sync/lock_concept.hpp: `removed` is current, and so
//       are edges, tags and values that are read under the lock.
//   (4) leave (release) in reclaim/rcu.hpp -> look (acquire) in reclaim/rcu.cpp: a section that the grace period
//       waits for reads edges and tags as they were before the removal of the successor.
//   (5) synchronize (heavy) in reclaim/rcu.cpp <-> enter (light) in reclaim/rcu.hpp: the grace period waits for the
//       section, or the section finds the copy.

namespace espalier {

template <class Key, class Value, class Traits = map_traits, class Compare = std::less<Key>>
class citrus : public internal_map<citrus<Key, Value, Traits, Compare>, Key, Value,
                                   completed_traits<Traits, locking_traits>, Compare> {
  using base = internal_map<citrus, Key, Value, completed_traits<Traits, locking_traits>, Compare>;
  using traits = typename base::traits_type;
  friend base;
  using base::store_;
  using typename base::holder;
  using typename base::store;
  using value_word = typename holder::word;
  using tag_type = std::uint32_t;

  struct node;
  using edge = std::atomic<node*>;

  // Fields of seeks first: 24 of 48 bytes.
  struct compact_fields {
    using lock_type = typename traits::lock_type;

    Key key;
    std::array<edge, 2> child;
    std::atomic<value_word> value;
    std::array<std::atomic<tag_type>, 2> tag;
    lock_type lock;
    bool removed;  // under lock

    compact_fields(const Key& k, value_word v) noexcept
        : key(k), child{}, value(v), tag{}, lock{}, removed(false) {}
  };

  // As in the implementation that the study measured: a mutex of the C library in each node.
  struct published_fields {
    using lock_type = std_mutex;

    Key key;
    std::atomic<value_word> value;
    std::array<edge, 2> child;
    lock_type lock;
    bool removed;
    std::array<std::atomic<tag_type>, 2> tag;

    published_fields(const Key& k, value_word v) noexcept
        : key(k), value(v), child{}, lock{}, removed(false), tag{} {}
  };

  static constexpr bool compact = traits::layout_type::shape == node_shape::compact;
  using fields = std::conditional_t<compact, compact_fields, published_fields>;
  using lock_type = typename fields::lock_type;
  static_assert(lockable<lock_type>, "a node's lock has no room for a queue");

  struct alignas(traits::layout_type::node_align(sizeof(fields), alignof(fields))) node : fields {
    using fields::fields;
  };

  static_assert(edge::is_always_lock_free && std::atomic<tag_type>::is_always_lock_free,
                "this processor has no lock-free atomics of that size");
  // std::mutex has 40 bytes on x86-64, 48 on ARM64.
  static_assert(sizeof(Key) != 8 || alignof(Key) != 8 || sizeof(value_word) != 8 || sizeof(std_mutex) != 40 ||
                    (sizeof(published_fields) == 88 && offsetof(published_fields, child) == 16 &&
                     offsetof(published_fields, lock) == 32 && offsetof(published_fields, tag) == 76),
                "the layout of a node, on which the measured figures rest, has changed");
  static_assert(sizeof(Key) != 8 || alignof(Key) != 8 || sizeof(value_word) != 8 ||
                    sizeof(typename compact_fields::lock_type) != 4 ||
                    (offsetof(compact_fields, key) == 0 && offsetof(compact_fields, child) == 8 &&
                     offsetof(compact_fields, value) == 24 && offsetof(compact_fields, tag) == 32 &&
                     offsetof(compact_fields, lock) == 40 && offsetof(compact_fields, removed) == 44 &&
                     sizeof(compact_fields) == 48),
                "the layout of a node, on which the measured figures rest, has changed");

 public:
  using typename base::guard_type;

  /// The same map of other entries, in another order, by other policies.
  template <class K, class V, class C = std::less<K>, class T = Traits>
  using rebind = citrus<K, V, T, C>;

  static constexpr map_properties properties{
      .name = "citrus",
      .find_progress = progress::lock_free,
      .update_progress = progress::blocking,
      .shape = balance::none,
      .region_protection = true,
      .paper = "Arbel and Attiya, Concurrent Updates with RCU, PODC 2014",
      .updates_await_reads = true,
      .exchanges = true};

  static constexpr std::size_t node_bytes = sizeof(node);
  static constexpr auto node_members = [] {
    constexpr node_member key{"key", offsetof(fields, key), sizeof(Key), search_use::all};
    constexpr node_member child{"child", offsetof(fields, child), sizeof(fields::child), search_use::half};
    constexpr node_member value{"value", offsetof(fields, value), sizeof(fields::value)};
    constexpr node_member tag{"tag", offsetof(fields, tag), sizeof(fields::tag)};
    constexpr node_member lock{"lock", offsetof(fields, lock), sizeof(fields::lock)};
    constexpr node_member removed{"removed", offsetof(fields, removed), sizeof(fields::removed)};
    if constexpr (compact)
      return std::array{key, child, value, tag, lock, removed};
    else
      return std::array{key, value, child, lock, removed, tag};
  }();

  using base::base;
  /// No other thread may use the map any more.
  ~citrus() { base::destroy_all(top()); }

 private:
  using typename base::contract;
  friend contract;

  [[nodiscard]] std::optional<Value> do_find(guard_type&, const Key& key) const {
    const rcu_domain::read_section inside(readers_);
    const node* const n = seek_node(key);
    if (n == nullptr) return std::nullopt;
    // order (2): read_value, acquire. Inside the section: while the successor's key is in two nodes, no value
    // changes.
    return holder::read(n->value.load(std::memory_order_acquire));
  }

  [[nodiscard]] bool do_contains(guard_type&, const Key& key) const {
    const rcu_domain::read_section inside(readers_);
    return seek_node(key) != nullptr;
  }

  bool do_insert(guard_type&, const Key& key, const Value& value) {
    new_node fresh(store_);
    for (backoff pause;; pause.wait()) {
      const seek_record at = seek(key);
      if (at.target != nullptr) return false;
      if (link(at, fresh, key, value)) return true;
    }
  }

  bool do_assign(guard_type& guard, const Key& key, const Value& value) {
    guard.reserve(holder::retirements);
    new_node fresh(store_);
    for (backoff pause;; pause.wait()) {
      const seek_record at = seek(key);
      if (at.target == nullptr ? link(at, fresh, key, value) : assign(guard, *at.target, fresh.word, value))
        return at.target == nullptr;
    }
  }

  template <class Function>
  std::optional<Value> do_update(guard_type& guard, const Key& key, Function&& f) {
    guard.reserve(2);
    new_node fresh(store_);
    unpublished<store, node> copy(store_, memory_role::node);
    bool erases = false;
    for (backoff pause;; pause.wait(), fresh.word.reset()) {
      const seek_record at = seek(key);
      if (at.target == nullptr) {
        const std::optional<Value> value = f(std::nullopt);
        if (!value || link(at, fresh, key, *value)) return std::nullopt;
        continue;
      }
      if (erases && copy.get() == nullptr && has_two_children(*at.target))
        copy.emplace(near(at), key, value_word{});
      node* moved = nullptr;
      value_word old;
      std::optional<Value> before;
      {
        const lock_guard above(at.parent->lock);
        const lock_guard on(at.target->lock);
        if (!is_valid(at)) continue;
        old = at.target->value.load(std::memory_order_relaxed);  // relaxed: written under the lock only
        before.emplace(holder::read(old));
        std::optional<Value> value = f(before);
        erases = !value;
        if (erases) {
          if (!remove(at, copy, moved)) continue;
        } else {
          // LP: update of a value. order (2): publish_value, release
          at.target->value.store(fresh.word.get(std::move(*value)), std::memory_order_release);
        }
      }
      if (erases) {
        retire_removed(guard, at.target, moved);
      } else {
        fresh.word.release();
        holder::retire(store_, guard, old);
      }
      return before;
    }
  }

  bool do_erase(guard_type& guard, const Key& key) {
    guard.reserve(2);
    unpublished<store, node> copy(store_, memory_role::node);
    for (backoff pause;; pause.wait()) {
      const seek_record at = seek(key);
      if (at.target == nullptr) return false;
      if (copy.get() == nullptr && has_two_children(*at.target)) copy.emplace(near(at), key, value_word{});
      node* moved = nullptr;
      if (!detach(at, copy, moved)) continue;
      retire_removed(guard, at.target, moved);
      return true;
    }
  }

 public:
  // Quiescent only, for tests and inspection.

  /// What is wrong with the structure, or null.
  [[nodiscard]] const char* check_invariants() const {
    if (is_seen_held(head_.lock)) return "the head is locked";
    // order (1): read_edge, acquire
    if (head_.child[1].load(std::memory_order_acquire) != nullptr) return "the head has a right child";
    return tree_at_rest::check_internal(
        base::key_comp(), static_cast<const node*>(top()), [](const node& n) -> const char* {
          if (is_seen_held(n.lock)) return "a reachable node is locked";
          return n.removed ? "a reachable node is marked as removed" : nullptr;
        });
  }

 private:
  using pending_word = typename holder::pending;
  using new_node = typename base::template new_node_of<node>;

  /// Where a seek ended: the edge, and what it led to.
  struct seek_record {
    node* parent;
    std::size_t side;
    node* target;  // null where the key would be
    tag_type tag;  // of the edge; of use only where the edge was empty
  };

  // Both comparisons, with no branch between them: at most nodes the key is neither.
  [[nodiscard]] bool equal(const Key& a, const Key& b) const {
    return !(static_cast<unsigned>(base::less(a, b)) | static_cast<unsigned>(base::less(b, a)));
  }
  /// For a key that is not the node's.
  [[nodiscard]] std::size_t side(const Key& key, const node& n) const {
    return base::less(n.key, key) ? 1 : 0;
  }

  // order (1): read_edge, acquire
  static node* child(const node& n, std::size_t s) noexcept {
    return n.child[s].load(std::memory_order_acquire);
  }
  [[nodiscard]] node* top() const noexcept { return child(head_, 0); }

  /// What a new node should lie beside; head_ is no block of the placement.
  [[nodiscard]] const void* near(const seek_record& at) const noexcept {
    return at.parent == &head_ ? nullptr : at.parent;
  }

  static bool has_two_children(const node& n) noexcept {
    return child(n, 0) != nullptr && child(n, 1) != nullptr;
  }

  // Seeks. seek_node() is called in a read section; the others have their own.

  /// The node with the key, or null.
  [[nodiscard]] const node* seek_node(const Key& key) const {
    const node* n = top();
    while (n != nullptr && !equal(n->key, key)) n = child(*n, side(key, *n));
    return n;
  }

  [[nodiscard]] seek_record seek(const Key& key) const {
    const rcu_domain::read_section inside(readers_);
    seek_record at{&head_, 0, top(), 0};
    while (at.target != nullptr && !equal(at.target->key, key)) {
      at.parent = at.target;
      at.side = side(key, *at.parent);
      at.target = child(*at.parent, at.side);
    }
    // relaxed: the section's end orders it before a change behind a grace period.
    at.tag = at.parent->tag[at.side].load(std::memory_order_relaxed);
    return at;
  }

  /// The entry with the smallest key that the bound admits.
  [[nodiscard]] std::optional<map_entry<Key, Value>> first_of(const scan_bound<Key, Compare>& bound) const {
    const rcu_domain::read_section inside(readers_);
    const node* best = nullptr;
    for (const node* n = top(); n != nullptr;) {
      const bool in_range = bound.admits(n->key);
      if (in_range) best = n;
      n = child(*n, in_range ? 0 : 1);
    }
    if (best == nullptr) return std::nullopt;
    // order (2): read_value, acquire
    return map_entry<Key, Value>{best->key, holder::read(best->value.load(std::memory_order_acquire))};
  }

  // Updates. Except for `link`, `assign`, `detach` and `replace`, they are called with all nodes locked that they
  // change or validate. Reads under a lock are relaxed where only its holders write.

  /// Whether the edge is still as the seek found it. A target that was removed has lost its edge.
  /// relaxed: the parent is locked.
  [[nodiscard]] static bool is_valid(const seek_record& at) noexcept {
    return !at.parent->removed && at.parent->child[at.side].load(std::memory_order_relaxed) == at.target &&
           (at.target != nullptr || at.parent->tag[at.side].load(std::memory_order_relaxed) == at.tag);
  }

  /// Unlinks the node to which an edge leads; `rest`, if any, takes its place.
  static void unlink(node& parent, std::size_t side, node* rest) noexcept {
    if (rest == nullptr) {
      // relaxed: published by the edge.
      const tag_type before = parent.tag[side].load(std::memory_order_relaxed);
      parent.tag[side].store(before + 1, std::memory_order_relaxed);
    }
    // LP: erase(true) where the node has one child at most. order (1): unlink, release
    parent.child[side].store(rest, std::memory_order_release);
  }

  /// Links a new node where a seek has not found its key. False if the edge has changed.
  bool link(const seek_record& at, new_node& fresh, const Key& key, const Value& value) {
    const value_word word = fresh.word.get(value);
    if (fresh.made.get() == nullptr)
      fresh.made.emplace(near(at), key, word);
    else  // relaxed: published by the edge. It may be another value than that of the attempt before.
      fresh.made.get()->value.store(word, std::memory_order_relaxed);
    const lock_guard hold(at.parent->lock);
    if (!is_valid(at)) return false;
    // LP: insert(true). order (1): link, release
    at.parent->child[at.side].store(fresh.made.release(), std::memory_order_release);
    fresh.word.release();
    return true;
  }

  bool assign(guard_type& guard, node& n, pending_word& fresh, const Value& value) {
    const value_word word = fresh.get(value);
    value_word old;
    {
      const lock_guard hold(n.lock);
      if (n.removed) return false;
      old = n.value.load(std::memory_order_relaxed);  // relaxed: written under the lock only
      // LP: insert_or_assign(false). order (2): publish_value, release
      n.value.store(word, std::memory_order_release);
    }
    fresh.release();
    holder::retire(store_, guard, old);
    return true;
  }

  /// Unlinks the target. False if the caller must seek again; nothing has changed then. `moved` is the
  /// successor's old node, if a copy has taken its place.
  [[nodiscard]] bool detach(const seek_record& at, unpublished<store, node>& copy, node*& moved) {
    const lock_guard above(at.parent->lock);
    const lock_guard on(at.target->lock);
    return is_valid(at) && remove(at, copy, moved);
  }

  /// The same for a target that is locked and valid, as is its parent.
  [[nodiscard]] bool remove(const seek_record& at, unpublished<store, node>& copy, node*& moved) {
    // relaxed: the target is locked.
    node* const left = at.target->child[0].load(std::memory_order_relaxed);
    node* const right = at.target->child[1].load(std::memory_order_relaxed);
    if (left != nullptr && right != nullptr) {
      // There is no copy if the second child has just come.
      if (copy.get() == nullptr) return false;
      moved = replace(at, copy, left, right);
      return moved != nullptr;
    }
    at.target->removed = true;
    unlink(*at.parent, at.side, left != nullptr ? left : right);
    return true;
  }

  /// Puts a copy of the successor in the place of the target, which is locked and has these two children.
  /// Returns the successor, removed, or null if nothing has changed.
  [[nodiscard]] node* replace(const seek_record& at, unpublished<store, node>& copy, node* left,
                              node* right) {
    node& fresh = *copy.get();
    const lock_guard on_copy(fresh.lock);  // here: in the order of locks it comes before the nodes below
    seek_record last{at.target, 1, right, 0};
    while (node* const next = child(*last.target, 0)) last = {last.target, 0, next, 0};
    node& successor = *last.target;
    std::optional<lock_guard<lock_type>> above;  // the target's is held
    if (last.parent != at.target) above.emplace(last.parent->lock);
    const lock_guard on(successor.lock);
    // relaxed: the successor is locked.
    if (!is_valid(last) || successor.child[0].load(std::memory_order_relaxed) != nullptr) return nullptr;

    // relaxed: published by the swing. The value cannot change while the successor is locked.
    fresh.key = successor.key;
    fresh.value.store(successor.value.load(std::memory_order_relaxed), std::memory_order_relaxed);
    fresh.child[0].store(left, std::memory_order_relaxed);
    fresh.child[1].store(right, std::memory_order_relaxed);
    at.target->removed = true;
    // LP: erase(true). order (1): swing, release
    at.parent->child[at.side].store(copy.release(), std::memory_order_release);
    readers_.synchronize();
    successor.removed = true;
    node& parent = last.parent == at.target ? fresh : *last.parent;
    // relaxed: the successor is locked.
    unlink(parent, last.side, successor.child[1].load(std::memory_order_relaxed));
    return &successor;
  }

  void retire_removed(guard_type& guard, node* removed, node* moved) noexcept {
    base::retire_node(guard, removed);
    // Its value lives on in the copy.
    if (moved != nullptr) store_.template retire<node, memory_role::node>(guard, moved);
  }

  // Every operation reads it, and an update of the tree's top writes it. It lies apart from the readers' table,
  // to which only a thread's first section adds.
  alignas(hw::false_sharing_bytes) mutable node head_{Key{}, value_word{}};
  alignas(hw::false_sharing_bytes) mutable rcu_domain readers_;
};

}  // namespace espalier
