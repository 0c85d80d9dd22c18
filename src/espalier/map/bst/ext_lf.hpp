#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <type_traits>

#include "espalier/map/bst/bst_traits.hpp"
#include "espalier/map/bst/external_map.hpp"
#include "espalier/map/bst/tree_at_rest.hpp"
#include "espalier/map/map_concept.hpp"
#include "espalier/map/map_traits.hpp"
#include "espalier/map/node_store.hpp"
#include "espalier/map/tagged_ptr.hpp"
#include "espalier/memory/clustered.hpp"
#include "espalier/sync/backoff.hpp"

// ext_lf: lock-free external binary search tree whose routers are flagged by operation records.
// Ellen, Fatourou, Ruppert and van Breugel, "Non-blocking Binary Search Trees", PODC 2010.
//
// Essence. Keys lie in leaves; an internal node (router) routes (left: smaller than its key). Besides its two
// edges a router has an update word: clean, or a flag and the record of the operation that owns the router,
// from which any thread can finish it. An insert flags the leaf's parent (IFLAG), swings the edge from the
// leaf to a new router, and unflags. An erase flags the grandparent (DFLAG), marks the parent (MARK, for
// ever: its edges are frozen), swings the grandparent's edge to the sibling, and unflags. If the parent
// cannot be marked, because its word is no longer the one that the seek read, the erase unflags and starts
// again.
//
// Deviations from the paper:
//  1. A clean word is a version, one more than the last clean word of that router; the paper leaves the
//     pointer to the finished record. No value of an update word recurs, even where addresses do. So a record
//     is retired when its flag is removed, and a router at rest has none. With pointers the last record must
//     be kept, because its address is the tag. setbench's ellen.h retires it at the unflag, and the word can
//     recur; ASCYLIB's bst_ellen retires it when the word is overwritten, but loses one where an erase backs
//     out. Even a correct version of this is not enough. A helper compares the parent's word with the address
//     of a record that may have been retired before the helper was pinned. If that address is reused at the
//     same parent, the helper marks the parent for an erase that was backed out long ago, and another key is
//     erased with it.
//  2. No sentinel keys. The tree hangs on the left edge of head_, a router in the map object which has no key
//     and is never marked. That edge is null in an empty map, and may point to a leaf. A leaf there, or null,
//     is replaced by one CAS, without a flag: the flag of an insert keeps the router from being marked
//     meanwhile, and no operation marks head_. No thread helps with that CAS, so it cannot come late.
//  3. insert_or_assign replaces the leaf of a key that is present, by the steps of an insert: a leaf never
//     changes. The reason is that an insert puts a copy in the place of the old leaf, as in the paper, so
//     that no edge has a value twice (below). A value stored into the old leaf at that time would be lost.
//  4. A mark that fails is backed out at once. The next attempt helps the operation in its way if that is
//     still there. Hence there is no recursion. Likewise, a thread that loses a flag seeks again before it
//     helps the winner.
//  5. Memory is reclaimed (below); the paper leaves it to a garbage collector.
//
// Invariants. An update word has no value twice. A router's edges change only while its word is flagged, and
// never again once it is marked; the exception is head_'s edge, which may change at any time while it points
// to a leaf or is null. A leaf never changes. No edge has a value twice, except null at head_: an insert or
// an assignment writes a new node; an erase moves a sibling up, and nothing moves down, since an insert puts
// a copy below its router. So the late CASes of a helper fail. The range of keys below a node never shrinks
// while it is linked.
//
// Reading is external_map's, although entries do move, from a leaf to its copy or to its successor. The two
// are never below one edge at the same time, so no walk passes both. An old leaf that a walk reaches was
// in the tree when the walk read the edge to it, or, if the router with that edge was unlinked by then, when
// that router was unlinked.
//
// Progress: every operation is lock-free. find, contains and scan write nothing shared and never retry. They
// are not wait-free, since inserts may extend the path ahead of a seek for ever. An update that meets a flag
// or a mark in its way helps (libcds' EllenBinTree waits) and tries again; it also tries again after a failed
// CAS. Suppose that updates try for ever and none completes. Then from some time on nothing is marked, no
// insert flags and head_'s edge stays, for each of these completes an operation. Only erases that back out
// set flags, and they do so for ever, or the attempts would end. Take the deepest router that is flagged
// again and again. The marks that fail are on its children, so the words of these change again and again, by
// flags. But the children lie deeper: a contradiction.
//
// Placement. Routers, leaves and records are apart; a router is asked for near its parent, from which a seek
// comes (memory/clustered.hpp).
//
// Reclamation. The thread that wins the swing retires what it unlinked: the old leaf, or the parent and its
// leaf. It does so after the word was unflagged, by itself or another thread, for until then the record leads
// there. The thread that wins the unflag retires the record. A record that was not published is freed at
// once. A leaf that was copied is reclaimed without its value's cell, which the copy has.
// (I1) Only unlinked routers and the record lead to unlinked nodes. A thread follows a record only from its
// flag, or from its mark in the router that the swing unlinks. A thread that can do so was pinned before the
// unflag, or before the swing. (I2) One thread wins each CAS. (I3) A CAS writes into an edge a new node, or a
// sibling to which the only edge is frozen until the swing. A late CAS fails: the value that it expects does
// not recur, and its address is not reused while the thread that has the record is pinned. On head_'s edge
// the sibling may be replaced, and retired, before the unflag. A thread that helps then reads its address
// from the frozen edge, does not follow it, and fails to write it.
//
// Linearization points
//   insert, insert_or_assign -> true     swing: the CAS of the edge, by whichever thread; at head_, replace's
//   insert_or_assign -> false            the same
//   update                               as the insert, the assignment or the erase that it amounts to: the leaf whose
//                                        value it has read is the one that goes
//   erase -> true                        swing, by whichever thread; at head_, unlink_last
//   insert, erase -> false               the read of the edge to the leaf (flags are ignored); if the router
//   find, contains                       with that edge was unlinked by then, its unlinking
//
// Orderings
//   (1) flag (release), mark (acq_rel) -> read_update (acquire): a record is seen complete.
//   (2) unflag (release) -> read_update (acquire): with a version come the edges that it stands for. The word
//       is read before the edge: where a flag finds that version, the edge is still the one that was read.
//   (3) mark (acq_rel) -> read_update, mark (acquire): with a mark come the edges that it freezes, which
//       unlink_marked reads relaxed. The acquire of mark is for a failure that finds the mark of another thread.
//   (4) swing, replace (release) -> read_edge (acquire), read_edge (acquire) in map/bst/external_map.hpp:
//       nodes are seen constructed. With an edge that was swung comes its router's word, no older than the
//       flag for it: a flag that expects an older word fails.
//   (5) unlink_last (release) -> read_edge (acquire): no access needs it, since a null edge leads nowhere.
//   (6) copy_of (relaxed) -> find (acquire): a leaf has its value before (4) publishes it, so (4) suffices,
//       and this acquire is not needed.
// All stores to an update word after its construction are CASes, one release sequence: a read_update acquires
// what all of them released.

namespace espalier {

/// The default policies.
using ext_lf_traits = plain_traits::with_placement<clustered>;

template <class Key, class Value, class Traits = map_traits, class Compare = std::less<Key>>
class ext_lf : public external_map<ext_lf<Key, Value, Traits, Compare>, Key, Value,
                                   completed_traits<Traits, ext_lf_traits>, Compare> {
  using base = external_map<ext_lf, Key, Value, completed_traits<Traits, ext_lf_traits>, Compare>;
  using traits = typename base::traits_type;
  friend base;
  using base::equal;
  using base::side;
  using base::store_;
  using typename base::holder;
  using typename base::store;

  // An update word: one of these in its two lowest bits, and a version (clean) or a record.
  static constexpr std::uintptr_t clean = 0;
  static constexpr std::uintptr_t iflag = 1;
  static constexpr std::uintptr_t dflag = 2;
  static constexpr std::uintptr_t mark = 3;
  static constexpr std::uintptr_t one_version = 4;

  struct node;
  struct record;
  using edge = std::atomic<node*>;
  using update_word = tagged_ptr<record, 2>;

  // Search fields first: 24 of 32 bytes, and the compact layout aligns them to 32. Only routers are flagged
  // and only leaves have a value: the two share a word, so that a node has 32 bytes instead of the usual 40.
  struct compact_fields {
    Key key;
    std::array<edge, 2> child;  // both null in a leaf, neither in a router
    union {
      std::atomic<update_word> update;           // of a router
      std::atomic<typename holder::word> value;  // of a leaf
    };

    compact_fields(const Key& k, typename holder::word v) noexcept : key(k), child{}, value(v) {}
    compact_fields(const Key& k, node* left, node* right) noexcept
        : key(k), child{left, right}, update(update_word()) {}
  };

  // As in the implementation that was measured: the edges follow the value, and each node has a line.
  struct published_fields {
    Key key;
    std::atomic<typename holder::word> value;
    std::atomic<update_word> update;
    std::array<edge, 2> child;
    std::array<std::byte, 24> padding;

    published_fields(const Key& k, typename holder::word v) noexcept
        : key(k), value(v), update(update_word()), child{} {}
    published_fields(const Key& k, node* left, node* right) noexcept
        : key(k), value{}, update(update_word()), child{left, right} {}
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

  /// What a helper must know to finish an operation. Constant once published.
  struct compact_record {
    node* top;            // the router whose edge is swung, and whose word has the flag
    node* old;            // what that edge points to: the leaf to replace, or the parent to unlink
    node* fresh;          // what replaces the leaf; null for an erase, which uses the sibling
    update_word settled;  // the clean word that replaces the flag
    update_word seen;     // for an erase: the parent's word, which the mark replaces
    std::uint8_t top_side;
    std::uint8_t old_side;  // for an erase: the parent's edge to the leaf
  };
  struct published_record : compact_record {
    std::array<std::byte, 16> padding;
  };
  struct record : std::conditional_t<compact, compact_record, published_record> {
    explicit record(const compact_record& r) noexcept { set(r); }
    void set(const compact_record& r) noexcept { static_cast<compact_record&>(*this) = r; }
  };

  static_assert(edge::is_always_lock_free && std::atomic<update_word>::is_always_lock_free,
                "this processor has no lock-free atomics of that size");
  static_assert(sizeof(Key) != 8 || alignof(Key) != 8 || sizeof(typename holder::word) != 8 ||
                    (offsetof(compact_fields, key) == 0 && offsetof(compact_fields, child) == 8 &&
                     offsetof(compact_fields, update) == 24 && offsetof(compact_fields, value) == 24 &&
                     sizeof(compact_fields) == 32 && sizeof(published_fields) == 64),
                "the layout of a node, on which the measured figures rest, has changed");
  static_assert(sizeof(compact_record) == 48 && sizeof(published_record) == 64,
                "the layout of a node, on which the measured figures rest, has changed");

 public:
  using typename base::guard_type;

  /// The same map of other entries, in another order, by other policies.
  template <class K, class V, class C = std::less<K>, class T = Traits>
  using rebind = ext_lf<K, V, T, C>;

  static constexpr map_properties properties{
      .name = "ext_lf",
      .find_progress = progress::lock_free,
      .update_progress = progress::lock_free,
      .shape = balance::none,
      .region_protection = true,
      .paper = "Ellen, Fatourou, Ruppert and van Breugel, Non-blocking Binary Search Trees, PODC 2010",
      .exchanges = true,
      .bidirectional = true};

  static constexpr std::size_t node_bytes = sizeof(node);
  static constexpr auto node_members = [] {
    if constexpr (compact)
      return std::to_array<node_member>(
          {{"key", offsetof(fields, key), sizeof(Key), search_use::all},
           {"child", offsetof(fields, child), sizeof(fields::child), search_use::half},
           {"update / value", offsetof(fields, update), sizeof(update_word)}});
    else
      return std::to_array<node_member>(
          {{"key", offsetof(fields, key), sizeof(Key), search_use::all},
           {"value", offsetof(fields, value), sizeof(fields::value)},
           {"update", offsetof(fields, update), sizeof(fields::update)},
           {"child", offsetof(fields, child), sizeof(fields::child), search_use::half},
           {"padding", offsetof(fields, padding), sizeof(fields::padding)}});
  }();

  using base::base;
  /// No other thread may use the map any more.
  ~ext_lf() { base::destroy_all(top()); }

 private:
  using typename base::contract;
  friend contract;

  [[nodiscard]] std::optional<Value> do_find(guard_type& guard, const Key& key) const {
    if constexpr (compact) {
      return base::do_find(guard, key);
    } else {
      const node* const leaf = seek(key).leaf;
      if (leaf == nullptr || !equal(leaf->key, key)) return std::nullopt;
      return holder::read(leaf->value.load(std::memory_order_acquire));  // order (6): find, acquire
    }
  }

  [[nodiscard]] bool do_contains(guard_type& guard, const Key& key) const {
    if constexpr (compact) {
      return base::do_contains(guard, key);
    } else {
      const node* const leaf = seek(key).leaf;
      return leaf != nullptr && equal(leaf->key, key);
    }
  }

  bool do_insert(guard_type& guard, const Key& key, const Value& value) {
    new_parts parts(store_, base::key_comp());
    for (backoff pause;; pause.wait()) {
      const seek_record at = seek(key);
      if (found(at, key)) return false;
      if (assign_at(guard, at, false, parts, key, value)) return true;
    }
  }

  bool do_assign(guard_type& guard, const Key& key, const Value& value) {
    new_parts parts(store_, base::key_comp());
    for (backoff pause;; pause.wait()) {
      const seek_record at = seek(key);
      const bool present = found(at, key);
      if (assign_at(guard, at, present, parts, key, value)) return !present;
    }
  }

  bool do_erase(guard_type& guard, const Key& key) {
    unpublished<store, record> fresh(store_, memory_role::descriptor);
    for (backoff pause;; pause.wait()) {
      const seek_record at = seek(key);
      if (!found(at, key)) return false;
      if (erase_at(guard, at, fresh)) return true;
    }
  }

  template <class Function>
  std::optional<Value> do_update(guard_type& guard, const Key& key, Function&& f) {
    new_parts parts(store_, base::key_comp());
    for (backoff pause;; pause.wait(), parts.insertion.word.reset()) {
      const seek_record at = seek(key);
      std::optional<Value> before;
      // relaxed: a linked leaf's value never changes, and came with the edge to it.
      if (found(at, key)) before.emplace(holder::read(at.leaf->value.load(std::memory_order_relaxed)));
      const std::optional<Value> value = f(before);
      if (!before && !value) return before;
      if (value ? assign_at(guard, at, before.has_value(), parts, key, *value)
                : erase_at(guard, at, parts.fresh))
        return before;
    }
  }

 public:
  // Quiescent only, for tests and inspection.

  /// What is wrong with the structure, or null.
  [[nodiscard]] const char* check_invariants() const {
    // order (1), (2), (3): read_update, acquire
    const auto flagged = [](const node& router) {
      return router.update.load(std::memory_order_acquire).tags() != clean;
    };
    if (flagged(head_)) return "the head is flagged";
    return tree_at_rest::check_external(base::key_comp(), top(), [&](const node* n) -> const char* {
      return !n->is_leaf() && flagged(*n) ? "a reachable router is flagged" : nullptr;
    });
  }

 private:
  using insertion_type = insertion<store, node, holder, Key, Value, Compare>;

  /// What an update prepares, and keeps over its attempts.
  struct new_parts {
    new_parts(store& s, const Compare& less) noexcept
        : insertion(s, less), copy(s, memory_role::leaf), fresh(s, memory_role::descriptor) {}
    insertion_type insertion;
    unpublished<store, node> copy;
    unpublished<store, record> fresh;
  };

  struct seek_record {
    node* grandparent;  // unset where the parent is head_
    node* parent;
    node* leaf;  // null where the map is empty
    update_word grandparent_seen;
    update_word parent_seen;
    std::uint8_t parent_side;
    std::uint8_t leaf_side;
  };

  /// Most entries that an attempt retires, for its own operation or for one that it helps: what the swing
  /// unlinked, as one entry, and the record.
  static constexpr std::size_t retirements = 2;

  // order (4), (5): read_edge, acquire
  [[nodiscard]] node* top() const noexcept { return head_.child[0].load(std::memory_order_acquire); }

  [[nodiscard]] seek_record seek(const Key& key) const {
    seek_record at{nullptr, &head_, nullptr, {}, {}, 0, 0};
    // order (1), (2), (3): read_update, acquire: the word of a router before its edge
    at.parent_seen = head_.update.load(std::memory_order_acquire);
    at.leaf = top();
    while (at.leaf != nullptr && !at.leaf->is_leaf()) {
      at.grandparent = at.parent;
      at.grandparent_seen = at.parent_seen;
      at.parent_side = at.leaf_side;
      at.parent = at.leaf;
      at.leaf_side = static_cast<std::uint8_t>(side(key, *at.parent));
      // order (1), (2), (3): read_update, acquire
      // order (4): read_edge, acquire
      at.parent_seen = at.parent->update.load(std::memory_order_acquire);
      at.leaf = at.parent->child[at.leaf_side].load(std::memory_order_acquire);
    }
    return at;
  }

  [[nodiscard]] bool found(const seek_record& at, const Key& key) const {
    return at.leaf != nullptr && equal(at.leaf->key, key);
  }

  /// Inserts the key where a seek has not found it, or replaces the leaf that it found. False if the caller must seek
  /// again.
  bool assign_at(guard_type& guard, const seek_record& at, bool present, new_parts& parts, const Key& key,
                 const Value& value) {
    guard.reserve(retirements);
    if (help(guard, at.parent_seen)) return false;
    const bool moves = at.leaf != nullptr && !present;
    node* const sibling = moves ? copy_of(*at.leaf, parts.copy) : nullptr;
    if (!replace(guard, at, parts.insertion.prepare(key, value, sibling, at.parent), parts.fresh))
      return false;
    parts.insertion.linked();
    if (moves) parts.copy.release();
    return true;
  }

  /// Unlinks the leaf that a seek found. False if the caller must seek again.
  bool erase_at(guard_type& guard, const seek_record& at, unpublished<store, record>& fresh) {
    guard.reserve(retirements);
    if (at.parent == &head_) return unlink_last(guard, at.leaf);
    if (help(guard, at.grandparent_seen) || help(guard, at.parent_seen)) return false;
    record& mine = prepare(fresh, {at.grandparent, at.parent, nullptr, version_after(at.grandparent_seen),
                                   at.parent_seen, at.parent_side, at.leaf_side});
    if (!flag(at.grandparent, at.grandparent_seen, mine, dflag)) return false;
    fresh.release();
    return finish_erase(guard, mine);
  }

  /// Puts a new node in the place of the leaf that a seek found. False if the tree has changed there.
  bool replace(guard_type& guard, const seek_record& at, node* by, unpublished<store, record>& fresh) {
    if (at.parent == &head_) {
      node* expected = at.leaf;
      // LP: insert, insert_or_assign. order (4): replace, release. relaxed: after a failure nothing is read
      // through the edge.
      if (!head_.child[0].compare_exchange_strong(expected, by, std::memory_order_release,
                                                  std::memory_order_relaxed))
        return false;
      if (at.leaf != nullptr) retire_replaced(guard, at.leaf, by);
      return true;
    }
    record& mine = prepare(
        fresh, {at.parent, at.leaf, by, version_after(at.parent_seen), update_word(), at.leaf_side, 0});
    if (!flag(at.parent, at.parent_seen, mine, iflag)) return false;
    fresh.release();
    finish_replace(guard, mine);
    return true;
  }

  /// Unlinks the only leaf, which is on head_.
  bool unlink_last(guard_type& guard, node* leaf) noexcept {
    node* expected = leaf;
    // LP: erase(true). order (5): unlink_last, release. relaxed: after a failure nothing is read through the edge.
    if (!head_.child[0].compare_exchange_strong(expected, nullptr, std::memory_order_release,
                                                std::memory_order_relaxed))
      return false;
    base::retire_node(guard, leaf);
    return true;
  }

  // Flags and marks. From help() on, the owner of a record and helpers call the same functions.

  static update_word version_after(update_word seen) noexcept {
    return update_word::from_word(seen.word() + one_version);
  }

  static bool flag(node* router, update_word seen, record& mine, std::uintptr_t how) noexcept {
    // order (1): flag, release. relaxed: after a failure the word is not used.
    return router->update.compare_exchange_strong(seen, update_word(&mine, how), std::memory_order_release,
                                                  std::memory_order_relaxed);
  }

  /// Finishes the operation that a word holds, if any. Needs `retirements` reserved.
  bool help(guard_type& guard, update_word seen) noexcept {
    switch (seen.tags()) {
      case iflag:
        finish_replace(guard, *seen.get());
        return true;
      case dflag:
        finish_erase(guard, *seen.get());
        return true;
      case mark:
        unlink_marked(guard, *seen.get());
        return true;
      default:
        return false;
    }
  }

  void finish_replace(guard_type& guard, record& r) noexcept {
    const bool won = swing(r, r.fresh);
    unflag(guard, r, iflag);
    if (won) retire_replaced(guard, r.old, r.fresh);
  }

  /// False if the parent could not be marked; the flag is then removed. All callers get the same result: the
  /// parent's word is never again the one in the record, and a mark stays.
  bool finish_erase(guard_type& guard, record& r) noexcept {
    const update_word marked(&r, mark);
    update_word found = r.seen;
    // order (1), (3): mark, acq_rel. On failure, order (3): mark, acquire: with another thread's mark come
    // the edges.
    if (!r.old->update.compare_exchange_strong(found, marked, std::memory_order_acq_rel,
                                               std::memory_order_acquire) &&
        found != marked) {
      unflag(guard, r, dflag);
      return false;
    }
    unlink_marked(guard, r);
    return true;
  }

  /// Swings the edge past a marked parent.
  void unlink_marked(guard_type& guard, record& r) noexcept {
    // relaxed: these edges, and the nodes that they point to, came with the mark, ordering (3), and the edges
    // never change again.
    node* const leaf = r.old->child[r.old_side].load(std::memory_order_relaxed);
    node* const sibling = r.old->child[1 - r.old_side].load(std::memory_order_relaxed);
    const bool won = swing(r, sibling);
    unflag(guard, r, dflag);
    if (won) base::retire_node(guard, r.old, leaf);
  }

  /// True if this call swung the edge; otherwise another thread has.
  static bool swing(const record& r, node* fresh) noexcept {
    node* expected = r.old;
    // LP: insert, insert_or_assign and erase(true). order (4): swing, release. relaxed: a failure means that
    // the edge was swung. An unflag follows: a thread that acquires it sees the edge no older than this one.
    return r.top->child[r.top_side].compare_exchange_strong(expected, fresh, std::memory_order_release,
                                                            std::memory_order_relaxed);
  }

  void unflag(guard_type& guard, record& r, std::uintptr_t how) noexcept {
    update_word expected(&r, how);
    // order (2): unflag, release. relaxed: after a failure the word is not used.
    if (r.top->update.compare_exchange_strong(expected, r.settled, std::memory_order_release,
                                              std::memory_order_relaxed))
      store_.template retire<record, memory_role::descriptor>(guard, &r);
  }

  // Memory.

  static record& prepare(unpublished<store, record>& fresh, const compact_record& contents) {
    if (fresh.get() == nullptr) return fresh.emplace(nullptr, contents);
    fresh.get()->set(contents);
    return *fresh.get();
  }

  static node* copy_of(const node& leaf, unpublished<store, node>& copy) {
    // relaxed: a linked leaf's value never changes, and came with the edge to it.
    const auto value = leaf.value.load(std::memory_order_relaxed);
    if (copy.get() == nullptr) return &copy.emplace(nullptr, leaf.key, value);
    copy.get()->key = leaf.key;
    // order (6): copy_of, relaxed: published with the router above it
    copy.get()->value.store(value, std::memory_order_relaxed);
    return copy.get();
  }

  /// For a leaf that another leaf, or a router with its copy, has replaced.
  void retire_replaced(guard_type& guard, node* leaf, const node* by) noexcept {
    if (by->is_leaf())
      base::retire_node(guard, leaf);
    else  // the copy has the value's cell
      store_.template retire<node, memory_role::leaf>(guard, leaf);
  }

  alignas(hw::false_sharing_bytes) mutable node head_{Key{}, nullptr, nullptr};
};

}  // namespace espalier
