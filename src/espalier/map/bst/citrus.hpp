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
#include "espalier/map/bst/internal_map.hpp"
#include "espalier/map/bst/internal_tree.hpp"
#include "espalier/map/map_concept.hpp"
#include "espalier/map/map_traits.hpp"
#include "espalier/map/node_store.hpp"
#include "espalier/map/stepwise_scan.hpp"
#include "espalier/map/value_holder.hpp"
#include "espalier/reclaim/rcu.hpp"
#include "espalier/sync/backoff.hpp"
#include "espalier/sync/lock_concept.hpp"
#include "espalier/sync/std_mutex.hpp"

// citrus: internal binary search tree with a lock in each node, searched in RCU read sections.
// Arbel and Attiya, "Concurrent Updates with RCU: Search Tree as an Example", PODC 2014.
//
// Essence. A search takes no lock and runs in a read section. An update searches likewise, leaves the
// section, locks the two nodes at which it arrived and validates: the upper one is not removed, and its edge
// is still the one that the search read. An empty edge looks like any other empty edge, so each edge has a
// tag that changes whenever it becomes empty. An erase of a node with two children puts a copy of its
// successor in the node's place, waits for a grace period, so that every search that may still need the
// successor where it was has ended, and only then takes the successor out.
//
// Deviations from the paper and from the authors' code:
//  1. No sentinel keys: the tree hangs on the left edge of head_, a node of the map itself which has no key
//     and is never removed.
//  2. The edge above the successor is its parent's left one, or the copy's right one where the successor is
//     the erased node's child. It is the tag of that edge that changes when the edge becomes empty. Published
//     code tests and changes the right one in both cases: an insert that noted the left edge as empty, before
//     the successor came there and moved up, links its key where no search will look.
//  3. The tag is read inside the read section. The grace period then orders the reading before the change.
//  4. synchronize() begins with a fence (reclaim/rcu.hpp); published code reads the readers' counts without
//     one, and misses those that have just begun.
//  5. Values; the paper has none, and published code with values loses that of the successor. The copy takes
//     it while the successor is locked; assigning takes the node's lock, so no value changes between.
//  6. Memory is given back (below). That needs a second, outer protection, since the update reaches nodes
//     outside its read section: the guard. Guard and section are of different domains, or synchronize() would
//     wait for threads that wait for its caller's locks.
//  7. The copy is allocated before any lock is taken.
//  8. The tag changes before the edge is stored, not after: who reads the empty edge reads its tag.
//  9. Validation does not look at the mark of the lower node: it is marked and loses its edge under the lock
//     of the upper one.
//
// Invariants. An edge, its tag and `removed` change only while the node's lock is held, and not after the
// node was marked as removed. A node and the one above it are locked when it is removed. Keys do not change
// once a node is linked. Keys left of a node are smaller than its key, keys right of it larger, but for the
// time between copy and removal of a successor: its key is then in the copy, and again, unchanged and locked,
// leftmost in the right subtree of the copy, which is locked too.
//
// Why a validated empty edge is the place of the key x that was searched. The range of keys below an edge
// only grows, except when a successor s moves up: keys between the erased one and s then lie to the left of
// the copy, while they lay at the left edge of s. Let x be such a key, and the search pass the erased node
// before the copy was there (else it was led right). Then it read its tag before the grace period ended. If
// the edge that it found empty is that of s, s is marked as removed. If not, s came to lie below that edge
// later; the edge has become empty again since, by the removal of s or after it, and its tag has changed.
// Tags have 32 bits: to be deceived a thread must sleep between its search and its lock while one edge becomes
// empty 2^32 times.
//
// Why the successor found is the right one. The walk to it goes left only, without a section, from the right
// child of a locked node; nodes change their places only upwards, past removed ones, and a copy takes the
// place of what it replaces. So each node that the walk meets is on the left spine of that subtree or is
// removed. One that is found not removed, with no left child, and locked, is the spine's end.
//
// Order of locks. Think of all nodes that ever were in one line: a new leaf goes to its end, a copy behind
// the node that it replaces. Then each edge that ever was leads forwards. Locks are waited for along edges
// only, parent, node, copy, the successor's parent, successor, hence forwards: no circle of waiting threads.
// synchronize() is called with up to five locks held, and waits for read sections only; those take no lock.
//
// Progress. find and contains take no lock and never retry; they write nothing but their thread's own count
// of sections. They are lock-free, not wait-free: inserts may go on extending the path right ahead of a
// descent. A scan is one descent for each entry. Updates block one another: a holder that is descheduled stops
// updates of its nodes, and a reader that is descheduled inside its section stops the erases of nodes with
// two children, and who waits for their locks. Visitors of scans run outside of sections.
//
// Scans. A step of a scan is a search for the place just behind the last key, and its answer is the key at
// which it turned left last. Were a larger key, present throughout, smaller than the answer, or were there no
// answer, then the search for that key, which takes the same edges, would miss it too. During a move the
// successor's key stands in the copy and below it on the right; who asks for what lies behind that key passes
// both, and answers increase strictly, so no key comes twice.
//
// Reclamation. The erase that marks a node retires it, after it has let all locks go: the erased node with
// its value's cell, the successor without it, since the cell has moved to the copy. (I1) The erased node is
// out of reach when its edge is overwritten, the successor when its own is, behind the grace period; only
// then are they retired. (I2) Who holds the lock of a node that is not marked marks it, and nobody else will.
// (I3) Edges are written with fresh nodes, or with children of a locked node that is not marked; these stay
// linked, since their removal needs that lock. The grace period frees nothing: threads hold nodes outside
// their sections.
//
// Linearization points
//   insert, insert_or_assign -> true   link: the store of the edge
//   insert_or_assign -> false          assign: the store of the value
//   erase -> true                      unlink, or swing: the store of the edge to the erased node
//   present: find, contains, insert    the read of the edge to the node; where the node above it was removed
//                                      before, the moment of that removal, when the key was there
//   absent: find, contains, erase      the read of the empty edge; where the node that has it was removed, or
//                                      the search was overtaken by a move, the moment of that removal or of
//                                      that swing, when the key was not there
//
// Orderings
//   link, unlink, swing (release)  -> read_edge (acquire)    nodes are seen constructed
//   publish_value (release)        -> read_value (acquire)
//   unlock                         -> lock                   `removed`; tags and edges when validated
//   leaving a section              -> synchronize()          a tag read in a section is older than its change
//                                                            behind the grace period
//   swing, synchronize()           -> entering a section     later sections find the copy

namespace espalier {

template <class Key, class Value, class Traits = map_traits, class Compare = std::less<Key>>
class citrus : public internal_map<citrus<Key, Value, Traits, Compare>, Key, Value,
                                   completed_traits<Traits, plain_traits>, Compare> {
  using base = internal_map<citrus, Key, Value, completed_traits<Traits, plain_traits>, Compare>;
  using traits = typename base::traits_type;
  friend base;
  using base::store_;
  using typename base::holder;
  using typename base::store;
  using value_word = typename holder::word;
  using tag_type = std::uint32_t;

  struct node;
  using edge = std::atomic<node*>;

  // Search fields first: 24 of 48 bytes.
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
      .scan = scan_guarantee::per_key,
      .region_protection = true,
      .paper = "Arbel and Attiya, Concurrent Updates with RCU, PODC 2014",
      .updates_await_reads = true};

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

  using base::contains;
  using base::erase;
  using base::find;
  using base::insert;
  using base::insert_or_assign;

  [[nodiscard]] std::optional<Value> find(guard_type&, const Key& key) const {
    const rcu_domain::read_section inside(readers_);
    const node* const n = descend(key);
    if (n == nullptr) return std::nullopt;
    // order: read_value (acquire) <- publish_value (release). Inside the section: while the successor's key
    // stands twice, no value changes.
    return holder::read(n->value.load(std::memory_order_acquire));
  }

  [[nodiscard]] bool contains(guard_type&, const Key& key) const {
    const rcu_domain::read_section inside(readers_);
    return descend(key) != nullptr;
  }

  bool insert(guard_type&, const Key& key, const Value& value) {
    return add(key, value, [](node&, pending_word&) { return true; });
  }

  bool insert_or_assign(guard_type& guard, const Key& key, const Value& value) {
    guard.reserve(holder::retirements);
    return add(key, value, [&](node& n, pending_word& fresh) { return assign(guard, n, fresh, value); });
  }

  bool erase(guard_type& guard, const Key& key) {
    guard.reserve(2);
    unpublished<store, node> copy(store_, memory_role::node);
    for (backoff pause;; pause.wait()) {
      const seek_record at = seek(key);
      if (at.target == nullptr) return false;
      if (copy.get() == nullptr && has_two_children(*at.target)) copy.emplace(near(at), key, value_word{});
      node* moved = nullptr;
      if (!detach(at, copy, moved)) continue;
      base::retire_node(guard, at.target);
      // Its value lives on in the copy.
      if (moved != nullptr) store_.template retire<node, memory_role::node>(guard, moved);
      return true;
    }
  }

  // Quiescent only, for tests and inspection.

  /// What is wrong with the structure, or null.
  [[nodiscard]] const char* check_invariants() const {
    if (is_seen_held(head_.lock)) return "the head is locked";
    if (head_.child[1].load(std::memory_order_acquire) != nullptr) return "the head has a right child";
    return internal_tree::check(base::key_comp(), static_cast<const node*>(top()),
                                [](const node& n) -> const char* {
                                  if (is_seen_held(n.lock)) return "a reachable node is locked";
                                  return n.removed ? "a reachable node is marked as removed" : nullptr;
                                });
  }

 private:
  using entry = scan_entry<Key, Value>;
  using pending_word = typename holder::pending;

  /// Where a search ended: the edge, and what it led to.
  struct seek_record {
    node* parent;
    std::size_t side;
    node* target;  // null where the key would be
    tag_type tag;  // of the edge; says something only where it was empty
  };

  // Both comparisons, with no branch between them: at most nodes the key is neither.
  [[nodiscard]] bool equal(const Key& a, const Key& b) const {
    return !(static_cast<unsigned>(base::less(a, b)) | static_cast<unsigned>(base::less(b, a)));
  }
  /// For a key that is not the node's.
  [[nodiscard]] std::size_t side(const Key& key, const node& n) const {
    return base::less(n.key, key) ? 1 : 0;
  }

  // order: read_edge (acquire) <- link, unlink, swing (release)
  static node* child(const node& n, std::size_t s) noexcept {
    return n.child[s].load(std::memory_order_acquire);
  }
  [[nodiscard]] node* top() const noexcept { return child(head_, 0); }

  /// Beside what a new node would best lie; head_ is no block of the placement.
  [[nodiscard]] const void* near(const seek_record& at) const noexcept {
    return at.parent == &head_ ? nullptr : at.parent;
  }

  static bool has_two_children(const node& n) noexcept {
    return child(n, 0) != nullptr && child(n, 1) != nullptr;
  }

  // Searches. The first and the last are called in a read section, seek has its own.

  /// The node with the key, or null.
  [[nodiscard]] const node* descend(const Key& key) const {
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
  [[nodiscard]] std::optional<entry> first_of(const scan_bound<Key, Compare>& bound) const {
    const rcu_domain::read_section inside(readers_);
    const node* best = nullptr;
    for (const node* n = top(); n != nullptr;) {
      const bool in_range = bound.admits(n->key);
      if (in_range) best = n;
      n = child(*n, in_range ? 0 : 1);
    }
    if (best == nullptr) return std::nullopt;
    return entry{best->key, holder::read(best->value.load(std::memory_order_acquire))};
  }

  // Updates. All but `add` and `assign` are called with the nodes locked that they change or validate, and so
  // read with relaxed order what changes under these locks alone.

  /// Whether the edge is still as the search found it. A target that was removed has lost its edge.
  [[nodiscard]] static bool is_valid(const seek_record& at) noexcept {
    return !at.parent->removed && at.parent->child[at.side].load(std::memory_order_relaxed) == at.target &&
           (at.target != nullptr || at.parent->tag[at.side].load(std::memory_order_relaxed) == at.tag);
  }

  /// Takes what an edge leads to out of the tree; `rest`, if any, takes its place.
  static void unlink(node& parent, std::size_t side, node* rest) noexcept {
    if (rest == nullptr) {
      // relaxed: published by the edge.
      const tag_type before = parent.tag[side].load(std::memory_order_relaxed);
      parent.tag[side].store(before + 1, std::memory_order_relaxed);
    }
    // LP: erase(true) where the node has one child at most. order: unlink (release) -> read_edge (acquire)
    parent.child[side].store(rest, std::memory_order_release);
  }

  /// `present` is given a node that has the key; false where it was removed meanwhile.
  template <class Present>
  bool add(const Key& key, const Value& value, Present&& present) {
    pending_word word(store_);
    unpublished<store, node> fresh(store_, memory_role::node);
    for (backoff pause;; pause.wait()) {
      const seek_record at = seek(key);
      if (at.target != nullptr) {
        if (present(*at.target, word)) return false;
        continue;
      }
      if (fresh.get() == nullptr) fresh.emplace(near(at), key, word.get(value));
      const lock_guard hold(at.parent->lock);
      if (!is_valid(at)) continue;
      // LP: insert(true). order: link (release) -> read_edge (acquire)
      at.parent->child[at.side].store(fresh.get(), std::memory_order_release);
      fresh.release();
      word.release();
      return true;
    }
  }

  bool assign(guard_type& guard, node& n, pending_word& fresh, const Value& value) {
    const value_word word = fresh.get(value);
    value_word old;
    {
      const lock_guard hold(n.lock);
      if (n.removed) return false;
      old = n.value.load(std::memory_order_relaxed);
      // LP: insert_or_assign(false). order: publish_value (release) -> read_value (acquire)
      n.value.store(word, std::memory_order_release);
    }
    fresh.release();
    holder::retire(store_, guard, old);
    return true;
  }

  /// Takes the target out of the tree. False where the search must be repeated: nothing has changed then.
  /// `moved` is the node that was the successor's, if a copy has taken its place.
  [[nodiscard]] bool detach(const seek_record& at, unpublished<store, node>& copy, node*& moved) {
    const lock_guard above(at.parent->lock);
    const lock_guard on(at.target->lock);
    if (!is_valid(at)) return false;
    node* const left = at.target->child[0].load(std::memory_order_relaxed);
    node* const right = at.target->child[1].load(std::memory_order_relaxed);
    if (left != nullptr && right != nullptr) {
      // Without a copy where the second child has just come.
      if (copy.get() == nullptr) return false;
      moved = replace(at, copy, left, right);
      return moved != nullptr;
    }
    at.target->removed = true;
    unlink(*at.parent, at.side, left != nullptr ? left : right);
    return true;
  }

  /// Puts a copy of the successor in the place of the target, which is locked and has these two children.
  /// Returns the successor, removed, or null where nothing has changed.
  [[nodiscard]] node* replace(const seek_record& at, unpublished<store, node>& copy, node* left,
                              node* right) {
    node& fresh = *copy.get();
    const lock_guard on_copy(fresh.lock);  // now: in the order of locks it comes before the nodes below
    seek_record last{at.target, 1, right, 0};
    while (node* const next = child(*last.target, 0)) last = {last.target, 0, next, 0};
    node& successor = *last.target;
    std::optional<lock_guard<lock_type>> above;  // the target's is held
    if (last.parent != at.target) above.emplace(last.parent->lock);
    const lock_guard on(successor.lock);
    if (!is_valid(last) || successor.child[0].load(std::memory_order_relaxed) != nullptr) return nullptr;

    // relaxed: published by the swing. The value cannot change while the successor is locked.
    fresh.key = successor.key;
    fresh.value.store(successor.value.load(std::memory_order_relaxed), std::memory_order_relaxed);
    fresh.child[0].store(left, std::memory_order_relaxed);
    fresh.child[1].store(right, std::memory_order_relaxed);
    at.target->removed = true;
    // LP: erase(true). order: swing (release) -> read_edge (acquire)
    at.parent->child[at.side].store(copy.release(), std::memory_order_release);
    readers_.synchronize();
    successor.removed = true;
    node& parent = last.parent == at.target ? fresh : *last.parent;
    unlink(parent, last.side, successor.child[1].load(std::memory_order_relaxed));
    return &successor;
  }

  // relaxed: at rest, or out of reach.
  static const Value* cell_of(const node& n) noexcept { return n.value.load(std::memory_order_relaxed); }

  // What every operation reads, and an update of the tree's top writes; apart from the readers' table, which
  // nobody writes after the first threads.
  alignas(hw::false_sharing_bytes) mutable node head_{Key{}, value_word{}};
  alignas(hw::false_sharing_bytes) mutable rcu_domain readers_;
};

}  // namespace espalier
