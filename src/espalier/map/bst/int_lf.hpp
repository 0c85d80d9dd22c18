#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>

#include "espalier/hw/cache_line.hpp"
#include "espalier/map/bst/bst_traits.hpp"
#include "espalier/map/bst/int_lf_node.hpp"
#include "espalier/map/bst/internal_map.hpp"
#include "espalier/map/bst/tree_at_rest.hpp"
#include "espalier/map/map_concept.hpp"
#include "espalier/map/map_traits.hpp"
#include "espalier/map/node_store.hpp"
#include "espalier/map/scan.hpp"
#include "espalier/map/tagged_ptr.hpp"
#include "espalier/sync/backoff.hpp"

// int_lf: lock-free internal binary search tree whose nodes carry the operation in progress. Howley and
// Jones, "A Non-Blocking Internal Binary Search Tree", SPAA 2012.
//
// Essence. Each node has an op word. To change a node, an update writes a descriptor of the change there by
// CAS; a thread that meets a descriptor can complete it. A change exchanges one field of its node: an edge or
// the value. A node with at most one child is erased by a MARK, which is for ever; a change of its parent
// then unlinks it. A node with two children gets the entry of its successor. A relocation is written into the
// successor's op word, then into the target's, which decides. The entry moves up, and the successor is marked
// and unlinked.
//
// Deviations from the paper:
//  1. Op words at rest, and null edges, hold a version of their node, which grows by one with each operation
//     on the node: they never recur. The paper leaves the address of the last descriptor, or of the node that
//     was last there. Both recur when memory is reused, and a stale CAS then succeeds. Nor could a descriptor
//     be reclaimed before its word is overwritten.
//  2. Values lie in cells that move with their keys. A late helper finds another cell and fails; a CAS of
//     values (ASCYLIB) succeeds as soon as a value recurs. An assignment is a change like any other: the op
//     word separates it from erasure and relocation, so that none is lost. Results and values share no
//     channel, and no value is reserved (ASCYLIB reserves four).
//  3. find, contains and scan only load, and never help (below).
//  4. A thread that meets a relocation at the successor touches the target only if its walk passed it: any
//     other target may have been reclaimed (reachable_target has the argument).
//  5. An erase makes sure that the node which it marked is unlinked before it returns, unless memory runs out
//     (clean_up).
//  6. Memory is reclaimed (below). ASCYLIB and setbench retire an erased node even if it was not unlinked.
//
// Invariants. The key of a node grows, by relocation only, and is fixed once the node is marked. A field
// changes only while its node's op word holds the change, or a relocation of which the node is the target. A
// marked node, and a successor under relocation, has at most one child, and its edges do not change. Nodes
// are added as leaves only: no node gets a new ancestor. A node is gone if it is marked, or if it is the
// successor of a relocation that has succeeded: its entry is erased, or is the target's. With gone nodes
// taken for edges to their only child, the tree is a search tree in which each entry stands once.
//
// Reading. A walk may pass nodes that are being unlinked, but it has passed every node above its present
// place. Let x be the key that it seeks, and `right` the last node at which it went right. The nodes at which
// it went left have keys larger than x, and keys only grow. So x can leave the path of the walk only upwards,
// into a node at which the walk went right, and the key of that node is then at least x. It cannot move above
// `right` while `right` is in the tree: the successor of a node above `right` is not larger than the key of
// `right`. The walk ends at an empty edge and then reads op word and key of `right`. If `right` is not gone,
// and its key is still smaller than x, then x was absent at a moment of the walk: one at which the last node
// was in the tree and its edge empty. A walk has found a node if the node has x, is not gone, and still has x
// after its cell was read. The cell is then that of x, since a relocation exchanges the cell before the key.
// For the target of a relocation, the descriptor says which entry is there.
//   find walks by keys and edges alone and reads op words only where it ends. If they do not settle the
// result, first_entry walks again and passes over gone nodes. It repeats only if `right`, or the node that it
// found, has become gone or got a new key during the walk.
//
// Progress: every operation is lock-free, none wait-free. A reader repeats only after another operation has
// taken effect, and waits for no thread.
//
// Reclamation. A descriptor is retired by the thread whose CAS takes it out of the tree: a change out of its
// node, a relocation out of the successor, which holds it first and last. What the operation has replaced is
// retired with it: the cell, or the unlinked node (and its cell, if that did not move). Nothing is retired
// earlier: a thread that pins later may still find the descriptor, and its CAS would expect an address that
// may have been reused. (I1) After that CAS no op word holds the descriptor: the target has released it
// before, and does not take it again, since the version that the relocation expects there has passed. The
// field was exchanged before. (I2) One CAS takes it out. (I3) Late helpers change nothing: what they expect
// does not recur. It is a version, a key that has grown, or an address that their guard keeps allocated.
//
// Linearization points
//   insert, insert_or_assign -> true     cas_field: of the edge, by whichever thread
//   insert_or_assign -> false            cas_field: of the cell
//   update                               as the insert, the assignment or the erase that it amounts to
//   insert -> false                      seek: the read of the key; the node was at rest
//   erase -> true, a child or none       mark
//   erase -> true, two children          accept: the CAS of the target's op word, by whichever thread
//   erase -> false                       seek: as for readers
//   find, contains -> present, a visit   the read of the cell; at the target of a relocation, of its op word
//   find, contains -> absent             as above, or an accept within the call
//
// Orderings
//   (1) publish, accept (acq_rel) -> read_op (acquire): a descriptor is seen complete.
//   (2) mark, rest (acq_rel) -> read_op (acquire): with a version come the node's fields, none older than the
//       operation before it: after a relocation, the new key. With a mark come the edges that it freezes, and
//       the accept by which the entry moved, if it did.
//   (3) cas_field (acq_rel) -> read_edge, read_cell (acquire): nodes and cells are seen constructed. With the
//       new field comes its node's op word, no older than the change: an update that read an older one fails
//       to publish. With an edge past an unlinked successor comes the accept by which its entry moved.
//   (4) move_cell (acq_rel) -> read_cell (acquire): with the new cell comes the target's op word, no older
//       than accept. A reader then sees the relocation, or by (2) the new key, and does not take the new cell
//       for that of the old key.
//   (5) move_key (acq_rel) -> read_key (acquire): with the new key comes its cell, and the target's op word
//       as in (4).
//   (6) decide (acq_rel) -> is_gone, read_entry, decide (acquire): with a decision comes the target's op word,
//       no older than the deciding thread saw it. Without it a reader that passes over a gone successor could
//       miss the entry at the target.
// Moves are made in the order cell, key, op word (rest), and readers read key, cell, op word, key.
// All stores to an op word after its construction are CASes, one release sequence: a read_op acquires what
// all of them released.

namespace espalier {

template <class Key, class Value, class Traits = map_traits, class Compare = std::less<Key>>
class int_lf : public internal_map<int_lf<Key, Value, Traits, Compare>, Key, Value,
                                   completed_traits<Traits, plain_traits>, Compare, true> {
  using base = internal_map<int_lf, Key, Value, completed_traits<Traits, plain_traits>, Compare, true>;
  using traits = typename base::traits_type;
  friend base;
  using base::less;
  using base::store_;
  using typename base::holder;
  using typename base::store;
  using cell_word = typename holder::word;
  static_assert(std::is_trivially_copyable_v<Key> && std::atomic<Key>::is_always_lock_free,
                "keys move between nodes: their atomics must be lock-free");
  static_assert(std::has_unique_object_representations_v<Key> || std::is_floating_point_v<Key>,
                "keys are compared bit by bit where they move between nodes: a struct with padding can be a "
                "key of any other map, not of this one");

  using nodes = int_lf_nodes<Key, cell_word, typename traits::layout_type>;
  using node = typename nodes::node;
  using op_word = typename nodes::op_word;
  using child_word = typename nodes::child_word;
  using field = typename nodes::field;
  using change = typename nodes::change;
  using decision = typename nodes::decision;
  using relocation_terms = typename nodes::relocation_terms;
  using relocation = typename nodes::relocation;

 public:
  using typename base::guard_type;

  /// The same map of other entries, in another order, by other policies.
  template <class K, class V, class C = std::less<K>, class T = Traits>
  using rebind = int_lf<K, V, T, C>;

  static constexpr map_properties properties{
      .name = "int_lf",
      .find_progress = progress::lock_free,
      .update_progress = progress::lock_free,
      .shape = balance::none,
      .region_protection = true,
      .paper = "Howley and Jones, A Non-Blocking Internal Binary Search Tree, SPAA 2012",
      .exchanges = true};

  static constexpr std::size_t node_bytes = sizeof(node);
  static constexpr auto node_members = nodes::members;

  using base::base;
  /// No other thread may use the map any more.
  ~int_lf() { base::destroy_all(top()); }

 private:
  using typename base::contract;
  friend contract;
  using pending = typename holder::pending;
  using spare_change = unpublished<store, change>;

  [[nodiscard]] std::optional<Value> do_find(guard_type&, const Key& key) const {
    const cell_word cell = find_cell(key);
    if (cell == nullptr) return std::nullopt;
    return holder::read(cell);
  }

  [[nodiscard]] bool do_contains(guard_type&, const Key& key) const { return find_cell(key) != nullptr; }

  bool do_insert(guard_type& guard, const Key& key, const Value& value) {
    new_parts parts(store_);
    for (backoff pause;; pause.wait()) {
      const place at = seek(guard, key, parts.spare);
      if (at.found) return false;
      if (link(guard, at, parts, key, value)) return true;
    }
  }

  bool do_assign(guard_type& guard, const Key& key, const Value& value) {
    new_parts parts(store_);
    for (backoff pause;; pause.wait()) {
      const place at = seek(guard, key, parts.spare);
      // The cell is read after the op word, which publish compares: the change replaces this one.
      if (at.found ? replace_cell(guard, at, parts, read_cell(*at.on), value)
                   : link(guard, at, parts, key, value))
        return !at.found;
    }
  }

  bool do_erase(guard_type& guard, const Key& key) {
    spare_change spare(store_, memory_role::descriptor);
    for (backoff pause;; pause.wait()) {
      const place at = seek(guard, key, spare);
      if (!at.found) return false;
      if (erase_at(guard, at, spare)) return true;
    }
  }

  template <class Function>
  std::optional<Value> do_update(guard_type& guard, const Key& key, Function&& f) {
    new_parts parts(store_);
    for (backoff pause;; pause.wait(), parts.cell.reset()) {
      const place at = seek(guard, key, parts.spare);
      if (!at.found) {
        const std::optional<Value> value = f(std::nullopt);
        if (!value || link(guard, at, parts, key, *value)) return std::nullopt;
        continue;
      }
      // Read after the op word. Whatever follows needs the word unchanged, and then replaces or erases this value.
      const cell_word cell = read_cell(*at.on);
      std::optional<Value> before(holder::read(cell));
      const std::optional<Value> value = f(before);
      if (value ? replace_cell(guard, at, parts, cell, *value) : erase_at(guard, at, parts.spare))
        return before;
    }
  }

 public:
  // Quiescent only, for tests and inspection.

  /// What is wrong with the structure, or null.
  [[nodiscard]] const char* check_invariants() const {
    const auto wrong_with = [](const node& n) -> const char* {
      const op_word w = read_op(n);
      return w.marked() ? "an erased node is linked" : w.at_rest() ? nullptr : "an operation was left undone";
    };
    if (const char* const wrong = wrong_with(head_)) return wrong;
    return tree_at_rest::check_internal(base::key_comp(), static_cast<const node*>(top()), wrong_with);
  }

 private:
  /// Where the walk of an update ended. All op words were at rest when the walk passed.
  struct place {
    node* above;  // the parent, head_ included
    op_word above_op;
    node* on;
    op_word op;
    node* right;  // the last node left through the right edge
    op_word right_op;
    child_word next;  // the empty edge where the key would be
    field side;       // which edge that is
    bool found;       // `on` has the key
  };

  /// An entry as a reader saw it.
  struct entry_view {
    Key key;
    cell_word cell;
    Key before;  // the key that a relocation in progress replaces here; else the same
  };

  static std::size_t side_of(field edge) noexcept { return edge == field::left ? 0 : 1; }
  static std::uintptr_t to_word(cell_word cell) noexcept { return reinterpret_cast<std::uintptr_t>(cell); }
  static cell_word to_cell(std::uintptr_t word) noexcept {
    return reinterpret_cast<cell_word>(word);  // NOLINT
  }

  [[nodiscard]] node* top() const noexcept { return read_edge(head_, 1).get(); }

  // order (3): read_edge, acquire
  static child_word read_edge(const node& n, std::size_t side) noexcept {
    return n.child[side].load(std::memory_order_acquire);
  }
  // order (1), (2): read_op, acquire
  static op_word read_op(const node& n) noexcept { return n.op.load(std::memory_order_acquire); }
  // order (5): read_key, acquire
  static Key read_key(const node& n) noexcept { return n.key.load(std::memory_order_acquire); }
  // order (3), (4): read_cell, acquire
  static cell_word read_cell(const node& n) noexcept { return n.cell.load(std::memory_order_acquire); }

  /// The CAS of all fields. Each call names its label.
  template <class T>
  static bool cas_field(std::atomic<T>& word, std::type_identity_t<T> from,
                        std::type_identity_t<T> to) noexcept {
    // order (1): publish, acq_rel; order (2): mark, acq_rel; order (2): rest, acq_rel
    // order (3): cas_field, acq_rel; order (4): move_cell, acq_rel; order (5): move_key, acq_rel
    // relaxed on failure: another thread has changed the field, and a thread that acquires what this one
    // releases later sees the field no older than this one did.
    return word.compare_exchange_strong(from, to, std::memory_order_acq_rel, std::memory_order_relaxed);
  }

  /// The child of a node that has one at most, or null.
  static child_word only_child(const node& n) noexcept {
    const child_word left = read_edge(n, 0);
    return left.is_null() ? read_edge(n, 1) : left;
  }

  // Reading.

  /// The cell of the key, or null.
  [[nodiscard]] cell_word find_cell(const Key& key) const {
    const node* right = &head_;
    for (child_word next = read_edge(head_, 1); !next.is_null();) {
      const node& n = *next.get();
      const Key here = read_key(n);
      if (less(key, here)) {
        next = read_edge(n, 0);
      } else if (less(here, key)) {
        right = &n;
        next = read_edge(n, 1);
      } else {
        const cell_word cell = read_cell(n);  // LP: present
        // relaxed: follows the acquire of the op word, ordering (2)
        if (read_op(n).entry_stays() && !less(here, n.key.load(std::memory_order_relaxed))) return cell;
        return find_cell_again(key);
      }
    }
    // LP: absent. relaxed: as above, ordering (2)
    if (right == &head_ ||
        (read_op(*right).entry_stays() && less(right->key.load(std::memory_order_relaxed), key)))
      return nullptr;
    return find_cell_again(key);
  }

  [[gnu::noinline]] [[nodiscard]] cell_word find_cell_again(const Key& key) const {
    const auto first = first_entry(scan_bound<Key, Compare>::at(base::key_comp(), key));
    return first && !less(key, first->key) ? first->cell : nullptr;
  }

  /// The entry with the smallest key that the bound admits. The cell lives as long as the guard.
  [[nodiscard]] std::optional<entry_view> first_entry(const scan_bound<Key, Compare>& bound) const {
    for (backoff pause;; pause.wait()) {
      const node* right = nullptr;  // last node with a smaller key, which is not admitted
      const node* best = nullptr;   // last node with an admitted key
      for (child_word next = read_edge(head_, 1); !next.is_null();) {
        const node& n = *next.get();
        if (is_gone(n)) {
          next = only_child(n);
        } else if (bound.admits(read_key(n))) {
          best = &n;
          next = read_edge(n, 0);
        } else {
          right = &n;
          next = read_edge(n, 1);
        }
      }
      if (right != nullptr) {
        const auto below = read_entry(*right);
        if (!below || bound.admits(below->before)) continue;  // the entry may have moved there
        if (bound.admits(below->key)) return below;           // a relocation is moving it there
      }
      if (best == nullptr) return std::nullopt;
      if (const auto found = read_entry(*best)) return found;
    }
  }

  [[nodiscard]] std::optional<map_entry<Key, Value>> first_of(const scan_bound<Key, Compare>& bound) const {
    const auto first = first_entry(bound);
    if (!first) return std::nullopt;
    return map_entry<Key, Value>{first->key, holder::read(first->cell)};
  }

  static bool is_gone(const node& n) noexcept {
    const op_word w = read_op(n);
    if (w.marked()) return true;
    const relocation* const r = w.relocating();
    // order (6): is_gone, acquire
    return r != nullptr && r->target != &n &&
           r->state.load(std::memory_order_acquire) == decision::successful;
  }

  /// The entry of a node; nothing if the node is gone or its key has just changed.
  [[nodiscard]] std::optional<entry_view> read_entry(const node& n) const {
    const Key key = read_key(n);
    const cell_word cell = read_cell(n);  // LP: a visit
    const op_word w = read_op(n);
    if (w.marked()) return std::nullopt;
    if (const relocation* const r = w.relocating()) {
      // accept has succeeded: the old key is erased, the new one is here.
      if (r->target == &n) return entry_view{r->new_key, r->new_cell, r->old_key};
      // order (6): read_entry, acquire
      if (r->state.load(std::memory_order_acquire) == decision::successful) return std::nullopt;
    }
    // relaxed: follows the acquire of the op word, ordering (2)
    if (less(key, n.key.load(std::memory_order_relaxed))) return std::nullopt;
    return entry_view{key, cell, key};
  }

  // Updates.

  /// A descriptor to write, made before the first change that others can see. Throws std::bad_alloc.
  static change& ready(spare_change& spare) {
    if (spare.get() == nullptr) spare.emplace(nullptr);
    return *spare.get();
  }

  /// Finds the key, or the empty edge where it would be; with `beyond`, where the next larger key would be.
  /// Completes operations that it meets. Throws std::bad_alloc. Reserves retirements for the caller's next
  /// step.
  [[nodiscard]] place seek(guard_type& guard, const Key& key, spare_change& spare, bool beyond = false) {
    for (backoff pause;; pause.wait()) {
      guard.reserve(4);  // two to help, two of the caller
      place at{};
      at.above = at.on = at.right = &head_;
      at.op = at.right_op = read_op(head_);
      at.side = field::right;
      if (!at.op.at_rest()) {
        help(guard, at, spare);
        continue;
      }
      at.next = read_edge(head_, 1);
      while (!at.next.is_null()) {
        at.above = at.on;
        at.above_op = at.op;
        at.on = at.next.get();
        at.op = read_op(*at.on);
        if (!at.op.at_rest()) break;
        const Key here = read_key(*at.on);
        if (less(key, here)) {
          at.side = field::left;
        } else if (beyond || less(here, key)) {
          at.side = field::right;
          at.right = at.on;
          at.right_op = at.op;
        } else {
          at.found = true;
          return at;
        }
        at.next = read_edge(*at.on, side_of(at.side));
      }
      if (!at.op.at_rest())
        help(guard, at, spare);
      else if (read_op(*at.right) == at.right_op)
        return at;
    }
  }

  /// What an update prepares, and keeps over its attempts.
  struct new_parts {
    explicit new_parts(store& s) noexcept
        : cell(s), made(s, memory_role::node), spare(s, memory_role::descriptor) {}
    pending cell;
    unpublished<store, node> made;
    spare_change spare;
  };

  /// Links a new node where a seek has not found its key. False if the node there has changed.
  bool link(guard_type& guard, const place& at, new_parts& parts, const Key& key, const Value& value) {
    const cell_word cell = parts.cell.get(value);
    if (parts.made.get() == nullptr)
      parts.made.emplace(at.on == &head_ ? nullptr : at.on, key, cell);
    else  // relaxed: published by the edge. It may be another value than that of the attempt before.
      parts.made.get()->cell.store(cell, std::memory_order_relaxed);
    change& c = ready(parts.spare);
    c.before = at.next.word();
    c.after = child_word(parts.made.get()).word();
    c.what = at.side;
    if (!publish(guard, *at.on, at.op, parts.spare)) return false;
    parts.made.release();
    parts.cell.release();
    return true;
  }

  /// Replaces the cell of the key's node. False if the node has changed since the seek read its op word.
  bool replace_cell(guard_type& guard, const place& at, new_parts& parts, cell_word seen,
                    const Value& value) {
    const cell_word fresh = parts.cell.get(value);
    change& c = ready(parts.spare);
    c.before = to_word(seen);
    c.after = to_word(fresh);
    c.what = field::cell;
    if (!publish(guard, *at.on, at.op, parts.spare)) return false;
    parts.cell.release();
    return true;
  }

  /// Erases the key that a seek found. False if the caller must seek again.
  bool erase_at(guard_type& guard, const place& at, spare_change& spare) {
    ready(spare);  // may throw, so not after the mark, which is final
    return has_two_children(*at.on) ? relocate(guard, at, spare) : remove(guard, at, spare);
  }

  /// Writes the spare change into the node's op word and completes it. False if the word is no longer `seen`.
  bool publish(guard_type& guard, node& n, op_word seen, spare_change& spare) noexcept {
    change& c = *spare.get();
    c.rest = seen.next();
    if (!cas_field(n.op, seen, op_word(c))) return false;  // publish, ordering (1)
    spare.release();
    complete(guard, n, c);
    return true;
  }

  /// Completes a change that n's op word held when this thread read it. The CASes of a late helper fail: what
  /// they expect has been replaced, and does not recur while the helper is pinned.
  void complete(guard_type& guard, node& n, change& c) noexcept {
    // LP: insert, insert_or_assign is this cas_field, ordering (3)
    if (c.what == field::cell)
      cas_field(n.cell, to_cell(c.before), to_cell(c.after));
    else
      cas_field(n.child[side_of(c.what)], child_word::from_word(c.before), child_word::from_word(c.after));
    // rest, ordering (2)
    if (cas_field(n.op, op_word(c), c.rest)) store_.retire_by(guard, &c, nullptr, reclaim_change);
  }

  /// Completes the operation that the walk of an update has met at its last node, or a part of it. Throws
  /// std::bad_alloc, with nothing changed.
  void help(guard_type& guard, const place& at, spare_change& spare) {
    if (change* const c = at.op.changing()) {
      complete(guard, *at.on, *c);
    } else if (relocation* const r = at.op.relocating()) {
      if (r->target == at.on) {
        decide(*r, true);
        move_entry(*r);
      } else if (const auto reachable = reachable_target(*r, at)) {
        ready(spare);
        if (finish_relocation(guard, *r, *at.on, *reachable)) unlink_successor(guard, *r, at, spare);
      }
    } else {
      ready(spare);
      unlink(guard, *at.above, at.above_op, *at.on, spare);
    }
  }

  /// Whether this thread may touch the target of a relocation that it met at the successor, at.on. The
  /// descriptor alone does not protect the target: another operation may have erased it, and retired it,
  /// before this thread pinned. But a target in the tree is above the successor, so the walk passed it and
  /// went right there. The nodes between the two were there when the successor was chosen, and the walk went
  /// left at each. So if at.right is another node, one of two holds. Either that node has been marked since,
  /// and the walk must repeat (no result), or the target is not in the tree.
  static std::optional<bool> reachable_target(const relocation& r, const place& at) noexcept {
    if (r.target == at.right) return true;
    if (read_op(*at.right) == at.right_op) return false;
    return std::nullopt;
  }

  /// Decides a relocation. If its target is unreachable, it fails unless it was decided before.
  static decision decide(relocation& r, bool reachable) noexcept {
    decision now = r.state.load(std::memory_order_acquire);  // order (6): decide, acquire
    if (now != decision::open) return now;
    bool accepted = false;
    if (reachable) {
      const op_word mine(r);
      op_word seen = r.target_rest;
      // LP: erase(true) of the target's key is accept, this CAS. order (1): accept, acq_rel
      accepted = r.target->op.compare_exchange_strong(seen, mine, std::memory_order_acq_rel,
                                                      std::memory_order_acquire) ||
                 seen == mine;
    }
    const decision wanted = accepted ? decision::successful : decision::failed;
    // order (6): decide, acq_rel
    return r.state.compare_exchange_strong(now, wanted, std::memory_order_acq_rel, std::memory_order_acquire)
               ? wanted
               : now;
  }

  /// The target's half of a successful relocation. A late helper fails at each step: the old cell is not
  /// reclaimed before the descriptor, keys grow, versions do not recur.
  static void move_entry(relocation& r) noexcept {
    cas_field(r.target->cell, r.old_cell, r.new_cell);          // move_cell, ordering (4)
    cas_field(r.target->key, r.old_key, r.new_key);             // move_key, ordering (5)
    cas_field(r.target->op, op_word(r), r.target_rest.next());  // rest, ordering (2)
  }

  /// Completes a relocation, but does not unlink the successor. True if it succeeded.
  bool finish_relocation(guard_type& guard, relocation& r, node& successor, bool reachable) noexcept {
    const bool moves = decide(r, reachable) == decision::successful;
    if (moves && reachable) move_entry(r);  // else it has moved, and the target was unlinked since
    // mark or rest, ordering (2)
    if (cas_field(successor.op, op_word(r), moves ? op_word::mark(true) : r.successor_rest.next()))
      store_.retire_by(guard, &r, nullptr, reclaim_relocation);
    return moves;
  }

  bool unlink_successor(guard_type& guard, const relocation& r, const place& at,
                        spare_change& spare) noexcept {
    const op_word above_op = at.above == r.target ? r.target_rest.next() : at.above_op;
    return unlink(guard, *at.above, above_op, *at.on, spare);
  }

  /// Unlinks a marked node, if its parent's op word is still what it was when the parent's edge was read.
  bool unlink(guard_type& guard, node& above, op_word above_op, node& marked, spare_change& spare) noexcept {
    change& c = *spare.get();
    const child_word below = only_child(marked);
    c.before = child_word(&marked).word();
    // A null with a version of the parent: the marked node's null may equal one that was here before.
    c.after = (below.is_null() ? child_word::null(above_op.next_version()) : below).word();
    c.what = read_edge(above, 0).get() == &marked ? field::left : field::right;
    return publish(guard, above, above_op, spare);
  }

  static bool has_two_children(const node& n) noexcept {
    return !read_edge(n, 0).is_null() && !read_edge(n, 1).is_null();
  }

  /// Erases a node that had at most one child when its op word was read. False if that has changed.
  bool remove(guard_type& guard, const place& at, spare_change& spare) noexcept {
    const Key key = read_key(*at.on);
    // LP: erase(true) is mark, this CAS, ordering (2)
    if (!cas_field(at.on->op, at.op, op_word::mark(false))) return false;
    if (!unlink(guard, *at.above, at.above_op, *at.on, spare)) clean_up(guard, key, spare);
    return true;
  }

  /// Erases the key of a node with two children by moving its successor's entry there. False if another
  /// operation interfered. Needs a spare change.
  bool relocate(guard_type& guard, place at, spare_change& spare) {
    node& target = *at.on;
    relocation_terms terms{};
    terms.target = &target;
    terms.target_rest = at.op;
    // Read after the op word, which accept compares: key and cell belong together.
    terms.old_key = read_key(target);
    terms.old_cell = read_cell(target);
    at.right = at.on;
    at.right_op = at.op;
    // Each edge on the path is read after its node's op word; the path changes only if an op word does.
    for (child_word next = read_edge(target, 1); !next.is_null(); next = read_edge(*at.on, 0)) {
      at.above = at.on;
      at.above_op = at.op;
      at.on = next.get();
      at.op = read_op(*at.on);
      if (!at.op.at_rest()) {
        help(guard, at, spare);
        return false;
      }
    }
    node& successor = *at.on;
    if (&successor == &target) return false;
    terms.successor_rest = at.op;
    terms.new_key = read_key(successor);
    terms.new_cell = read_cell(successor);
    unpublished<store, relocation> made(store_, memory_role::descriptor);
    relocation& r = made.emplace(nullptr, terms);
    if (!cas_field(successor.op, at.op, op_word(r))) return false;  // publish, ordering (1)
    made.release();
    if (!finish_relocation(guard, r, successor, true)) return false;
    if (!unlink_successor(guard, r, at, spare)) clean_up(guard, terms.new_key, spare);
    return true;
  }

  /// Makes sure that no marked node with this key is in the tree. Such a node lies right of all other nodes
  /// with the key, so a walk just beyond the key meets it and unlinks it. If memory runs out, the next update
  /// that passes unlinks it.
  void clean_up(guard_type& guard, const Key& key, spare_change& spare) noexcept {
    try {
      (void)seek(guard, key, spare, true);
    } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch)
    }
  }

  // Reclaiming what no thread can reach.

  // relaxed: the map is at rest, or no thread can reach the node.
  static const Value* cell_of(const node& n) noexcept {
    return n.op.load(std::memory_order_relaxed).entry_moved() ? nullptr
                                                              : n.cell.load(std::memory_order_relaxed);
  }

  static void reclaim_change(const retired& entry) noexcept {
    store& owner = *static_cast<store*>(entry.owner);
    change* const c = static_cast<change*>(entry.object);
    if (c->what == field::cell)
      holder::discard(owner, to_cell(c->before));
    else if (node* const unlinked = child_word::from_word(c->before).get())
      base::destroy(owner, unlinked);
    owner.destroy(memory_role::descriptor, c);
  }

  static void reclaim_relocation(const retired& entry) noexcept {
    store& owner = *static_cast<store*>(entry.owner);
    relocation* const r = static_cast<relocation*>(entry.object);
    // relaxed: decided before the descriptor was retired
    if (r->state.load(std::memory_order_relaxed) == decision::successful) holder::discard(owner, r->old_cell);
    owner.destroy(memory_role::descriptor, r);
  }

  // Has no key: all nodes are right of it. Never erased.
  alignas(hw::false_sharing_bytes) node head_{Key{}, nullptr};
};

}  // namespace espalier
