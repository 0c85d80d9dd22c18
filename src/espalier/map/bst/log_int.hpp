#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>

#include "espalier/hw/cache_line.hpp"
#include "espalier/map/bst/bst_traits.hpp"
#include "espalier/map/bst/internal_map.hpp"
#include "espalier/map/bst/tree_at_rest.hpp"
#include "espalier/map/map_concept.hpp"
#include "espalier/map/map_facade.hpp"
#include "espalier/map/map_traits.hpp"
#include "espalier/map/node_store.hpp"
#include "espalier/map/tagged_ptr.hpp"
#include "espalier/sync/backoff.hpp"
#include "espalier/sync/lock_concept.hpp"
#include "espalier/sync/std_mutex.hpp"

// log_int: internal binary search tree over a doubly linked list that decides which keys are present.
// Drachsler, Vechev and Yahav, "Practical Concurrent Binary Search Trees via Logical Ordering", PPoPP 2014;
// the unbalanced one of its trees.
//
// Essence. All nodes are linked in the order of their keys, besides being in the tree. A seek goes down the tree
// without locks or validation. Wherever it ends, it walks along the list to the place of its key. The tree is
// thus a hint of where to enter the list, and may change in any way under a seek. A node's succ_lock guards the
// gap between it and its successor; its tree_lock guards its two edges. An insert locks the gap, then the node
// with the free edge there. An erase locks the gaps on both sides of its node, then in the tree what its
// removal changes. A node with two children is replaced by its successor. The successor is linked elsewhere but
// never copied, so entries do not move.
//
// Deviations from the paper and from its implementations (the authors' in Java, ASCYLIB's in C):
//  1. An insert links its node behind the predecessor first, and before the successor second. In the other
//     order, a seek from above finds the key and a later seek from below does not.
//  2. Both gaps stay locked until the erased node is out of the tree. If they were unlocked earlier, its
//     neighbour could go and a key come while seeks still enter the list at the erased node. The links of the
//     erased node follow neither change: the seeks would miss the key, and would reach memory that was
//     reclaimed. An insert, too, keeps its gap locked until its node is in the tree.
//  3. Updates seek first, as find does: an insert of a present key and an erase of an absent one lock nothing.
//  4. A parent is read, locked and read again until both reads agree. Its mark is not tested besides: when the
//     tree_lock of an erased node becomes free, the node is no node's parent.
//  5. A thread that fails to get a lock that it may only try releases all its tree locks and backs off. Objects
//     hold the locks, and the result of try_lock() has one meaning; the kinds of lock in ASCYLIB have two.
//  6. The sentinels are nodes of the map itself, recognized by address, and have no key. The mark is a bit of
//     succ.
//  7. Values, overwritten in place under the node's succ_lock: an erase that returns the value holds it too.
//  8. Memory is reclaimed (below).
//
// Invariants. left_end() and right_end() enclose the list; the tree hangs on right_end()'s left edge.
//   - succ is written under the node's succ_lock, pred under the predecessor's, edges under the node's
//     tree_lock, parent under those of the old parent and the new. Links and edges of an erased node stay as
//     they were.
//   - succ is exact: what it reaches from left_end() is the list. A node is present while it is in the list
//     without a mark. pred lags behind by at most one change, while that gap is locked.
//   - A node in the tree is in the list, or its erase holds the gaps around it. Call either "in place". A key
//     that lies strictly in such gaps is absent, and so is the erased key; both ends are in the list.
//   - Between two neighbours in the tree one edge is free: right of the lower or left of the upper.
//
// Why a seek is right. (a) Each node on its path was in place at some time t of the seek. The top of the tree
// is in place; an edge or link read from a node in place leads to a node in place; and a node that has left
// since t keeps the edges and links with which it left. (b) Let the walk go by succ from z, smaller than the
// key, to y, not smaller. No key between z and y was present at one of these moments: when the walk read this
// link; when z was marked, if that was after t; or else t. (c) If y has the key and no mark, the key is present
// when the mark is read. If y has a mark, the key was absent once y was marked, if that was after t, or else
// at t: while the gaps are locked no other node with this key comes.
//   A scan goes along succ and visits the nodes without a mark. By (b) it passes no key that is present
// throughout, also while it stands on erased nodes. Keys increase along succ, in these too. A reverse scan is at a
// node y. It goes from y by pred to a node z before y, which lags behind, and then by succ to the last node below y, as
// a seek for the key of y does. By (b) it passes no key either.
//
// Order of locks. succ_locks come first, by increasing keys; a thread that holds a tree_lock waits for no
// succ_lock. An insert takes one tree_lock. An erase waits for its node's, then for the parent's. It only tries
// those of the successor and of its parent, which lie below. So a thread that waits while it holds a tree_lock
// waits for the parent of its own unmarked node. In a cycle of such waits each node would lie below the next.
// It did when its parent was read; a locked node is not moved, and an unmarked one is not removed. Any other
// node that moves goes up, and stays above all that it was above.
//
// Progress. find, contains and scan take no lock, write nothing shared and never retry. They are lock-free,
// not wait-free: updates may go on extending the way ahead. In a tree that no thread changes every walk ends,
// also beside an erase that has stopped: an erase unlinks the successor before it gives it new edges, so that
// edges form no cycle at any time. Updates block one another: a lock holder that is descheduled stops updates
// of its gaps and of the edges that it has locked.
//
// Reclamation. The erase that marked a node retires it, when all is unlinked. (I1) The links of both
// neighbours, the edge of the parent and the parents of its children have been replaced. A node erased
// earlier may still lead there, but only seeks that were under way then stand on that one. (I2) The mark is
// set once, under the lock of the gap before the node. (I3) Links, edges and parents are written with a new
// node, or with nodes that a lock of the writer keeps from being erased.
//
// Linearization points
//   insert, insert_or_assign -> true     link: the store of the predecessor's succ
//   insert -> false, assign -> false     the read of the mark; the store of the value
//   update                               as the insert, the assignment or the erase that it amounts to
//   erase -> true                        mark: the store of succ with the mark
//   find, contains -> present            the read of the mark
//   erase -> false, find, contains       as (b) and (c) say: the read of succ, or another erase's mark
//
// Orderings
//   (1) link, mark (release) -> read_link (acquire): nodes are seen constructed. A seek that sees a link or a mark
//       sees those stored before it: an erased node's mark with the link that passes it.
//   (2) attach, unlink (release) -> read_edge (acquire): nodes are seen constructed. A seek that sees an edge sees
//       the links and marks stored before it: it enters the list at a node that is linked there.
//   (3) adopt (release) -> read_parent (acquire): the parent, whose lock is taken next, is seen constructed.
//   (4) replace_value (release) -> read_value (acquire): a cell is seen constructed, and what its writer did before is
//       visible.
// Accesses under a lock are relaxed where only its holders write.

namespace espalier {

template <class Key, class Value, class Traits = map_traits, class Compare = std::less<Key>>
class log_int : public internal_map<log_int<Key, Value, Traits, Compare>, Key, Value,
                                    completed_traits<Traits, locking_traits>, Compare> {
  using base = internal_map<log_int, Key, Value, completed_traits<Traits, locking_traits>, Compare>;
  using traits = typename base::traits_type;
  friend base;
  using base::store_;
  using typename base::holder;
  using typename base::store;

  static constexpr bool compact = traits::layout_type::shape == node_shape::compact;
  using lock_type = std::conditional_t<compact, typename traits::lock_type, std_mutex>;
  static_assert(lockable<lock_type>, "erases hand locks on: a lock with a queue node will not do");

  static constexpr std::uintptr_t mark = 1;

  struct node;
  using edge = std::atomic<node*>;
  using link = tagged_ptr<node, 1>;

  // Fields of seeks first; the node is one cache line.
  struct compact_fields {
    Key key;
    std::array<edge, 2> child;
    std::atomic<link> succ;  // with the mark
    edge pred;
    std::atomic<typename holder::word> value;
    edge parent;
    lock_type tree_lock;
    lock_type succ_lock;

    compact_fields(const Key& k, typename holder::word v) noexcept
        : key(k), child{}, succ{}, pred{}, value(v), parent{}, tree_lock{}, succ_lock{} {}
  };

  // As in ASCYLIB, with the mutexes that the study found there: a node then fills three lines, and edges, key and
  // value lie in different ones. (The mark, a byte behind the value there, is a bit of succ here too.)
  struct published_fields {
    std::array<edge, 2> child;
    edge parent;
    std::atomic<link> succ;
    edge pred;
    lock_type tree_lock;
    lock_type succ_lock;
    Key key;
    std::atomic<typename holder::word> value;
    std::array<std::byte, 56> padding;

    published_fields(const Key& k, typename holder::word v) noexcept
        : child{}, parent{}, succ{}, pred{}, tree_lock{}, succ_lock{}, key(k), value(v) {}
  };

  using fields = std::conditional_t<compact, compact_fields, published_fields>;

  struct alignas(traits::layout_type::node_align(sizeof(fields), alignof(fields))) node : fields {
    using fields::fields;
  };

  static_assert(edge::is_always_lock_free && std::atomic<link>::is_always_lock_free,
                "this processor has no lock-free atomics of that size");
  static_assert(sizeof(Key) != 8 || alignof(Key) != 8 || sizeof(typename holder::word) != 8 ||
                    (compact ? sizeof(lock_type) != 4 : sizeof(lock_type) != 40) ||
                    (compact ? offsetof(fields, key) == 0 && offsetof(fields, child) == 8 &&
                                   offsetof(fields, succ) == 24 && offsetof(fields, pred) == 32 &&
                                   offsetof(fields, value) == 40 && offsetof(fields, parent) == 48 &&
                                   offsetof(fields, tree_lock) == 56 && offsetof(fields, succ_lock) == 60 &&
                                   sizeof(node) == 64
                             : offsetof(fields, child) == 0 && offsetof(fields, key) == 120 &&
                                   offsetof(fields, value) == 128 && sizeof(node) == 192),
                "the layout of a node, on which the measured figures rest, has changed");

 public:
  using typename base::guard_type;

  /// The same map of other entries, in another order, by other policies.
  template <class K, class V, class C = std::less<K>, class T = Traits>
  using rebind = log_int<K, V, T, C>;

  static constexpr map_properties properties{.name = "log_int",
                                             .find_progress = progress::lock_free,
                                             .update_progress = progress::blocking,
                                             .shape = balance::none,
                                             .region_protection = true,
                                             .paper =
                                                 "Drachsler, Vechev and Yahav, Practical Concurrent Binary "
                                                 "Search Trees via Logical Ordering, PPoPP 2014",
                                             .exchanges = true,
                                             .bidirectional = true};

  static constexpr std::size_t node_bytes = sizeof(node);
  static constexpr auto node_members = [] {
    constexpr node_member key{"key", offsetof(fields, key), sizeof(Key), search_use::all};
    constexpr node_member child{"child", offsetof(fields, child), sizeof(fields::child), search_use::half};
    constexpr node_member succ{"succ / mark", offsetof(fields, succ), sizeof(fields::succ)};
    constexpr node_member pred{"pred", offsetof(fields, pred), sizeof(fields::pred)};
    constexpr node_member value{"value", offsetof(fields, value), sizeof(fields::value)};
    constexpr node_member parent{"parent", offsetof(fields, parent), sizeof(fields::parent)};
    constexpr node_member tree_lock{"tree_lock", offsetof(fields, tree_lock), sizeof(lock_type)};
    constexpr node_member succ_lock{"succ_lock", offsetof(fields, succ_lock), sizeof(lock_type)};
    if constexpr (compact)
      return std::array{key, child, succ, pred, value, parent, tree_lock, succ_lock};
    else
      return std::array{
          child, parent,    succ,
          pred,  tree_lock, succ_lock,
          key,   value,     node_member{"padding", offsetof(fields, padding), sizeof(fields::padding)}};
  }();

  using base::base;
  /// No other thread may use the map any more.
  ~log_int() { base::destroy_all(top()); }

 private:
  using typename base::contract;
  friend contract;

  [[nodiscard]] std::optional<Value> do_find(guard_type&, const Key& key) const {
    const node* const n = seek(key);
    if (!is_present(*n, key)) return std::nullopt;
    // order (4): read_value, acquire
    return holder::read(n->value.load(std::memory_order_acquire));
  }

  [[nodiscard]] bool do_contains(guard_type&, const Key& key) const { return is_present(*seek(key), key); }

  bool do_insert(guard_type&, const Key& key, const Value& value) {
    new_node fresh(store_);
    for (backoff pause;; pause.wait()) {
      node& at = *seek(key);
      if (is_present(at, key)) return false;
      if (link_before(at, fresh, key, value)) return true;
    }
  }

  bool do_assign(guard_type& guard, const Key& key, const Value& value) {
    guard.reserve(holder::retirements);
    new_node fresh(store_);
    for (backoff pause;; pause.wait()) {
      node& at = *seek(key);
      if (!is_present(at, key)) {
        if (link_before(at, fresh, key, value)) return true;
        continue;
      }
      const typename holder::word word = fresh.word.get(value);
      typename holder::word old;
      {
        const held gap(at.succ_lock);
        if (is_marked(at)) continue;
        old = replace_value(at, word);
      }
      fresh.word.release();
      holder::retire(store_, guard, old);
      return false;
    }
  }

  template <class Function>
  std::optional<Value> do_update(guard_type& guard, const Key& key, Function&& f) {
    guard.reserve(1);
    new_node fresh(store_);
    for (backoff pause;; pause.wait(), fresh.word.reset()) {
      node& at = *seek(key);
      if (!is_present(at, key)) {
        const std::optional<Value> value = f(std::nullopt);
        if (!value || link_before(at, fresh, key, *value)) return std::nullopt;
        continue;
      }
      typename holder::word old;
      std::optional<Value> before;
      bool stays = false;
      {
        const gaps around = lock_gaps(at);
        if (around.p == nullptr) continue;
        // relaxed: written under the node's succ_lock only
        old = at.value.load(std::memory_order_relaxed);
        before.emplace(holder::read(old));
        std::optional<Value> value = f(before);
        stays = value.has_value();
        if (stays)
          replace_value(at, fresh.word.get(std::move(*value)));
        else
          detach(at, *around.p);
      }
      if (stays) {
        fresh.word.release();
        holder::retire(store_, guard, old);
      } else {
        base::retire_node(guard, &at);
      }
      return before;
    }
  }

  bool do_erase(guard_type& guard, const Key& key) {
    node* const n = seek(key);
    if (!is_present(*n, key)) return false;
    guard.reserve(1);
    {
      const gaps around = lock_gaps(*n);
      if (around.p == nullptr) return false;  // LP: the mark, which was not there when the seek ended
      detach(*n, *around.p);
    }
    base::retire_node(guard, n);
    return true;
  }

  template <class Visit>
  void do_scan(guard_type&, const scan_bound<Key, Compare>& bound, Visit&& visit) const {
    const Key* const from = bound.key();
    const node* n = from == nullptr ? next_of(left_end()) : seek(*from);
    if (bound.excludes_key() && !is_larger(*n, *from)) n = next_of(*n);
    while (n != &right_end()) {
      const link next = n->succ.load(std::memory_order_acquire);  // order (1): read_link, acquire
      // order (4): read_value, acquire
      if (!next.has(mark) && !visit(n->key, holder::read(n->value.load(std::memory_order_acquire)))) return;
      n = next.get();
    }
  }

  /// Back along pred, then up along succ to the last node that the bound admits.
  template <class Visit>
  void do_scan(guard_type&, reverse_bound<Key, Compare> bound, Visit&& visit) const {
    const auto admits = [&](const node& n) {
      return &n != &right_end() && (&n == &left_end() || bound.admits(n.key));
    };
    for (const node* n = bound.key() == nullptr ? &right_end() : seek(*bound.key());;
         bound.move_behind(n->key)) {
      // order (1): read_link, acquire
      while (!admits(*n)) n = n->pred.load(std::memory_order_acquire);
      link next = n->succ.load(std::memory_order_acquire);
      for (; admits(*next.get()); next = n->succ.load(std::memory_order_acquire)) n = next.get();
      if (n == &left_end()) return;
      // order (4): read_value, acquire
      if (!next.has(mark) && !visit(n->key, holder::read(n->value.load(std::memory_order_acquire)))) return;
    }
  }

 public:
  // Quiescent only, for tests and inspection.

  /// What is wrong with the structure, or null.
  [[nodiscard]] const char* check_invariants() const {
    std::size_t in_tree = 0;
    const char* const wrong = tree_at_rest::check_internal(
        base::key_comp(), static_cast<const node*>(top()), [&](const node& n) -> const char* {
          ++in_tree;
          if (is_marked(n)) return "an erased node is in the tree";
          if (is_seen_held(n.tree_lock) || is_seen_held(n.succ_lock)) return "a reachable node is locked";
          // order (3): read_parent, acquire; order (2): read_edge, acquire
          const node* const parent = n.parent.load(std::memory_order_acquire);
          if (parent->child[0].load(std::memory_order_acquire) != &n &&
              parent->child[1].load(std::memory_order_acquire) != &n)
            return "a node is not a child of its parent";
          return nullptr;
        });
    if (wrong != nullptr) return wrong;
    if (is_seen_held(left_end().succ_lock) || is_seen_held(right_end().tree_lock))
      return "a sentinel is locked";
    std::size_t in_list = 0;
    const node* before = &left_end();
    // order (1): read_link, acquire
    const node* n = before->succ.load(std::memory_order_acquire).get();
    for (; n != &right_end(); before = n, n = n->succ.load(std::memory_order_acquire).get()) {
      if (++in_list > in_tree) return "a node of the list is not in the tree";
      // order (1): read_link, acquire
      if (n->pred.load(std::memory_order_acquire) != before) return "pred is not the reverse of succ";
      if (before != &left_end() && !base::less(before->key, n->key)) return "the list is not in order";
    }
    // order (1): read_link, acquire
    if (right_end().pred.load(std::memory_order_acquire) != before) return "pred is not the reverse of succ";
    return in_list == in_tree ? nullptr : "a node of the tree is not in the list";
  }

 private:
  using held = std::unique_lock<lock_type>;
  using pending = typename holder::pending;
  using new_node = typename base::template new_node_of<node>;

  /// The gaps around a node, locked, and its predecessor; null if the node is erased.
  struct gaps {
    held before;
    held behind;
    node* p;
  };

  /// The node with the free edge in a gap, locked.
  struct free_edge {
    held lock;
    node* parent;
    std::size_t side;
  };

  /// What the removal of a node from the tree changes, locked.
  struct removal {
    held on_node;
    held on_parent;
    held on_above;
    held on_successor;
    node* above = nullptr;  // the successor's parent; null where the node has a free edge
  };

  node& left_end() const noexcept { return ends_.first; }
  node& right_end() const noexcept { return ends_.last; }

  // order (2): read_edge, acquire
  [[nodiscard]] node* top() const noexcept { return right_end().child[0].load(std::memory_order_acquire); }

  // order (1): read_link, acquire
  static node* next_of(const node& n) noexcept { return n.succ.load(std::memory_order_acquire).get(); }

  bool is_smaller(const node& n, const Key& key) const {
    return &n != &right_end() && (&n == &left_end() || base::less(n.key, key));
  }
  bool is_larger(const node& n, const Key& key) const {
    return &n != &left_end() && (&n == &right_end() || base::less(key, n.key));
  }
  static bool is_marked(const node& n) noexcept {
    // order (1): read_link, acquire
    return n.succ.load(std::memory_order_acquire).has(mark);
  }
  /// For a node that seek() found.
  bool is_present(const node& n, const Key& key) const { return !is_larger(n, key) && !is_marked(n); }

  /// The seek. Returns the node with the key, present or not; if there is none, the first one behind the key,
  /// which may be right_end().
  [[nodiscard]] node* seek(const Key& key) const {
    node* n = &right_end();
    for (node* next = top(); next != nullptr;) {
      n = next;
      const bool right = base::less(n->key, key);
      if (!right && !base::less(key, n->key)) return n;
      // order (2): read_edge, acquire
      next = n->child[right ? 1 : 0].load(std::memory_order_acquire);
    }
    // order (1): read_link, acquire
    while (is_larger(*n, key)) n = n->pred.load(std::memory_order_acquire);
    while (is_smaller(*n, key)) n = next_of(*n);
    return n;
  }

  /// Links a new node where a seek has not found its key: before the node at which it ended. False if the gap is another
  /// one by now.
  bool link_before(node& behind, new_node& fresh, const Key& key, const Value& value) {
    const typename holder::word word = fresh.word.get(value);
    if (fresh.made.get() == nullptr)
      fresh.made.emplace(&behind, key, word);
    else  // relaxed: published by link. It may be another value than that of the attempt before.
      fresh.made.get()->value.store(word, std::memory_order_relaxed);
    // order (1): read_link, acquire
    node& p = *behind.pred.load(std::memory_order_acquire);
    const held gap(p.succ_lock);
    // relaxed: the gap is locked.
    const link next = p.succ.load(std::memory_order_relaxed);
    // The gap is another one if p was erased, or if a node came or went around the key: seek again.
    if (next.has(mark) || !is_smaller(p, key) || !is_larger(*next.get(), key)) return false;
    insert_between(p, *next.get(), *fresh.made.get());
    fresh.made.release();
    fresh.word.release();
    return true;
  }

  /// For a node whose succ_lock is held, and which is not erased. Returns the word before.
  static typename holder::word replace_value(node& n, typename holder::word fresh) noexcept {
    // relaxed: written under the node's succ_lock only
    const typename holder::word old = n.value.load(std::memory_order_relaxed);
    // LP: insert_or_assign(false). order (4): replace_value, release
    n.value.store(fresh, std::memory_order_release);
    return old;
  }

  /// Links a node into a locked gap.
  static void insert_between(node& p, node& s, node& n) {
    const free_edge slot = lock_free_edge(p, s);
    // relaxed: published by link.
    n.pred.store(&p, std::memory_order_relaxed);
    n.succ.store(&s, std::memory_order_relaxed);
    n.parent.store(slot.parent, std::memory_order_relaxed);
    // LP: insert(true) is the first of these. order (1): link, release
    p.succ.store(&n, std::memory_order_release);
    s.pred.store(&n, std::memory_order_release);
    // order (2): attach, release
    slot.parent->child[slot.side].store(&n, std::memory_order_release);
  }

  /// The free edge between two neighbours whose gap is locked. left_end() has right_end() on its right, so its edge is
  /// never free.
  [[nodiscard]] static free_edge lock_free_edge(node& p, node& s) {
    for (backoff pause;; pause.wait()) {
      // relaxed: a guess which of the two it is, tested below under the lock.
      const bool right = p.child[1].load(std::memory_order_relaxed) == nullptr;
      free_edge slot{held((right ? p : s).tree_lock), right ? &p : &s, right ? std::size_t{1} : 0};
      if (slot.parent->child[slot.side].load(std::memory_order_relaxed) == nullptr) return slot;
    }
  }

  [[nodiscard]] static gaps lock_gaps(node& n) {
    while (true) {
      node* const p = n.pred.load(std::memory_order_acquire);  // order (1): read_link, acquire
      held before(p->succ_lock);
      // If they are equal, neither node has a mark, and both stay while the gap is locked. relaxed: likewise.
      if (p->succ.load(std::memory_order_relaxed) == link(&n))
        return {std::move(before), held(n.succ_lock), p};
      before.unlock();
      if (is_marked(n)) return {};
    }
  }

  /// Erases a node's key: unlinks the node from list and tree. The gaps around it are locked.
  static void detach(node& n, node& p) {
    // relaxed: the gap is locked.
    node& s = *n.succ.load(std::memory_order_relaxed).get();
    const removal locks = lock_for_removal(n, s);
    // LP: erase(true). order (1): mark, release
    n.succ.store(link(&s, mark), std::memory_order_release);
    // order (1): link, release
    p.succ.store(&s, std::memory_order_release);
    s.pred.store(&p, std::memory_order_release);
    unlink(n, s, locks.above);
  }

  /// For a node n whose gaps are locked, and its successor s.
  [[nodiscard]] static removal lock_for_removal(node& n, node& s) {
    for (backoff pause;; pause.wait()) {
      removal locks;
      locks.on_node = held(n.tree_lock);
      locks.on_parent = lock_parent(n);
      if (child(n, 0) == nullptr || child(n, 1) == nullptr) return locks;
      // The successor is in the tree, because its insert has released the gap. It lies below n, with its left
      // edge free. order (3): read_parent, acquire
      locks.above = s.parent.load(std::memory_order_acquire);
      if (locks.above != &n) {
        locks.on_above = held(locks.above->tree_lock, std::try_to_lock);
        // relaxed: the lock of the parent is held, without which the field does not change.
        if (!locks.on_above || s.parent.load(std::memory_order_relaxed) != locks.above) continue;
      }
      locks.on_successor = held(s.tree_lock, std::try_to_lock);
      if (locks.on_successor) return locks;
    }
  }

  [[nodiscard]] static held lock_parent(const node& n) {
    while (true) {
      // order (3): read_parent, acquire
      node* const parent = n.parent.load(std::memory_order_acquire);
      held lock(parent->tree_lock);
      // relaxed: as in lock_for_removal().
      if (n.parent.load(std::memory_order_relaxed) == parent) return lock;
    }
  }

  /// Unlinks a node from the tree, after lock_for_removal().
  static void unlink(node& n, node& s, node* above) noexcept {
    node* const left = child(n, 0);
    node* const right = child(n, 1);
    node* replacement = left != nullptr ? left : right;
    if (above != nullptr) {
      replacement = &s;
      if (above != &n) {
        // The successor is unlinked before it gets an edge to what lies above it: no cycle at any time.
        set_child(*above, 0, child(s, 1));
        set_child(s, 1, right);
      }
      set_child(s, 0, left);
    }
    // relaxed: the parent's lock is held.
    node& parent = *n.parent.load(std::memory_order_relaxed);
    set_child(parent, child(parent, 0) == &n ? 0 : 1, replacement);
  }

  /// For a locked node. relaxed: only the holder of its lock writes it.
  static node* child(const node& n, std::size_t side) noexcept {
    return n.child[side].load(std::memory_order_relaxed);
  }

  /// For a locked node, and a child whose parent is locked too.
  static void set_child(node& parent, std::size_t side, node* n) noexcept {
    // order (3): adopt, release
    if (n != nullptr) n->parent.store(&parent, std::memory_order_release);
    // order (2): unlink, release
    parent.child[side].store(n, std::memory_order_release);
  }

  struct sentinels {
    alignas(hw::false_sharing_bytes) node first{Key{}, typename holder::word{}};
    alignas(hw::false_sharing_bytes) node last{Key{}, typename holder::word{}};

    sentinels() noexcept {
      // relaxed: no other thread has the map yet.
      first.succ.store(&last, std::memory_order_relaxed);
      last.pred.store(&first, std::memory_order_relaxed);
      first.child[1].store(&last, std::memory_order_relaxed);
    }
  };

  mutable sentinels ends_;
};

}  // namespace espalier
