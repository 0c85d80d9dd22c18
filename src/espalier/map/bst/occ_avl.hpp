#pragma once

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
#include "espalier/map/bst/internal_map.hpp"
#include "espalier/map/bst/occ_avl_node.hpp"
#include "espalier/map/bst/tree_at_rest.hpp"
#include "espalier/map/map_concept.hpp"
#include "espalier/map/map_traits.hpp"
#include "espalier/map/node_store.hpp"
#include "espalier/map/scan.hpp"
#include "espalier/memory/clustered.hpp"
#include "espalier/sync/backoff.hpp"
#include "espalier/sync/lock_concept.hpp"

// occ_avl: internal AVL tree with optimistic readers and a lock in each node.
// Bronson, Casper, Chafi and Olukotun, "A Practical Concurrent Binary Search Tree", PPoPP 2010.
//
// Essence. A seek takes no locks. It goes down hand over hand, by versions. At each step it reads an edge and the
// version of the child. Then it checks that the node that it leaves still has the version with which it was entered. A
// version changes when its node *shrinks*: a rotation moves the node down, and the node loses part of its range of
// keys; and when a rotation gives the node another child (deviation 11). Updates lock the few nodes that they change,
// from the top down. An erase of a key whose node has two children marks the key as absent; the node stays and routes.
// A node with fewer children is unlinked. The thread that changes the tree repairs heights and balance, and unlinks
// routing nodes that are left with one child.
//
// Deviations from the paper, from the authors' code (SnapTree), and from its descendants in C:
//  1. Keys are compared by Compare; ASCYLIB subtracts them into an int.
//  2. A counter, odd or even, says whether a key is present; no value is reserved for this. A find reads the counter,
//     the value, and the counter again: it returns a value that the node had while the key was present. Values are
//     assigned under the lock: erase and insert work on the same node, and no other way is linearizable beside them.
//  3. An unlinked node keeps everything but its version. A reader on the node sees what was true when it was unlinked.
//     (Some code clears the value before it is certain that the node can go. An erase that must try again then finds
//     nothing to erase.)
//  4. A seek waits for a shrinking child until it has shrunk; ASCYLIB stops after 100 reads.
//  5. An update that finds things changed once it has its locks seeks again from the top.
//  6. A repair examines a node only under its lock. It examines the parent of a changed node once that is locked and
//     still the parent. SnapTree first looks without the lock: a thread may then store a height that it computed from a
//     child's old one, just after the thread that changed the child has looked and found nothing to do.
//  7. After a rotation a repair goes up at least to the node above it. SnapTree's repair goes on while heights change;
//     if another thread repairs the lowest damaged node meanwhile, those above it stay damaged.
//  8. Where a double rotation would leave two damaged nodes side by side, only its first half is made. SnapTree leaves
//     the second node to the child's own repair, which may find nothing to do there.
//  9. Memory is reclaimed (below).
// 10. A seek is a loop, which keeps one node and its version. It becomes the paper's recursion, whose frames keep the
//     path, once a node on the path has changed.
// 11. In the paper a growing range needs no new version, and a seek reads each edge again after the child's version.
//     Here a rotation changes the versions of all nodes whose edges it changes, before the node that shrinks is steady
//     again: a seek that read an edge before the rotation, and the new version behind it, finds the version of the node
//     that it leaves changed. Without the second read a processor begins the next find while this one waits for memory.
// With 6 to 8 the balance at rest is that of an AVL tree: check_invariants() verifies it.
//
// The Design (occ_avl_node.hpp) says where a seek continues after a change, whether reads validate at all, and
// which node the published layout is.
//
// Invariants
//   - A node's key never changes. Its edges, version, state (presence, height) and value are written under its
//     lock; its parent is written under the locks of the old parent and of the new one.
//   - Locks are taken downwards only: a thread that locks a node holds its parent's lock, or none.
//   - A linked node is the child of its parent, which is linked. An unlinked node has an obsolete version
//     for ever; its edges, state and value stay.
//   - A node's range of keys only grows, until its version changes.
//   - A thread that changes an edge or the state of a node, or the height of its child, examines the node
//     under its lock afterwards. So the last thread to change one of these sees what there is to repair.
//   - At rest heights are exact, those of siblings differ by one at most, and routing nodes have two children.
//     There is one exception: if several routing nodes are to go in one repair, and there is no memory to
//     retire them with, they stay, and damage above them waits for another repair there.
//
// Progress. Updates block one another. find, contains and scan write nothing and take no lock, yet block: they wait
// while a node on their path shrinks, which takes a rotation some ten stores. They start again at the top once, and
// then go back only over nodes that a rotation has changed.
//
// Scan: a validated seek for each entry. Its answer is the node at which it turned left last. Let x be a key beyond the
// bound that is present throughout. The range of the node where the seek stands contains x until the seek turns left at
// a node whose key is not larger than x; the nodes where it turns left below that one have smaller keys still. So the
// key found is not larger than x. If that key is absent, the scan seeks the next one. A reverse scan is the mirror
// image.
//
// Placement. A placement that splits nodes, as the default does for keys of a word (memory/clustered.hpp), puts what a
// seek reads of a node beside the node's parent where there is room, and the rest elsewhere. A seek that ends at an
// empty edge reads nothing else; one that finds its key reads one rest. Rotations separate neighbours. The head is then
// a block too, so making a map allocates memory.
//
// Reclamation. node::unlink() unlinks a node; only its caller retires the node, after it has released the locks. (I1)
// The node was reachable by one edge, that of its parent, which was locked and linked. (I2) Whether a node is unlinked
// is read and written under its lock. (I3) Rotations and node::unlink() store edges to linked nodes only: edges lead to
// each of these from a locked node that is not unlinked. A thread that waits for the lock of an unlinked node is
// pinned. Values that are no words lie in cells. An assignment retires the cell that it replaces. The erase that makes
// a node route retires the node's cell: no thread follows its address while the key is absent. An unlinked node is
// retired together with its cell.
//
// Linearization points
//   insert, insert_or_assign -> true     link: the store of the edge; store_value: the store of the state
//   insert -> false                      the read of the state
//   insert_or_assign -> false            store_value: the store of the value
//   update                               as the insert, the assignment or the erase that it amounts to
//   erase -> true                        make_routing: the store of the state; node::unlink(): the store of the parent's edge
//   erase -> false, find, contains       at the key's node: the read of the state, or of the value if present;
//                                        without one: the read of the empty edge, confirmed by the version
//   A read of a node that is unlinked meanwhile counts immediately before node::unlink() unlinks it. That moment lies
//   within the operation, which could not have reached the node otherwise.
//
// Orderings
//   (1) set_child (release) in occ_avl_node.hpp, link (release) -> read_edge (acquire): nodes are seen constructed; a
//       seek that sees an edge of a rotation sees the versions that the rotation has marked as shrinking.
//   (2) release, make_obsolete (release) in sync/optimistic_lock.hpp -> now (acquire) in sync/optimistic_lock.hpp: a
//       seek that sees the version sees the edges changed before it, the one to the node among them.
//   (3) toggle_presence, correct_height (release) in occ_avl_node.hpp -> read_status (acquire): the value is seen that
//       belongs to the state.
//   (4) set_child (release) in occ_avl_node.hpp -> parent_now (acquire) in occ_avl_node.hpp: the parent, whose lock is
//       taken next, is seen constructed.
//   (5) store_value, change (release) -> read_value (acquire): a cell is seen constructed. A find that sees the value
//       of a revived key sees in its second read of the state that the key had been absent.
// The nodes' locks order all other accesses.

namespace espalier {

/// The default policies: nodes in two places. What a seek reads of a node takes half a line.
template <class Key>
using occ_avl_traits =
    std::conditional_t<sizeof(Key) <= sizeof(void*) && alignof(Key) <= alignof(void*),
                       locking_traits::with_placement<split_clusters<32, 24>>, locking_traits>;

template <class Key, class Value, class Traits = map_traits, class Compare = std::less<Key>,
          class Design = occ_avl_by_synchrobench>
class occ_avl : public internal_map<occ_avl<Key, Value, Traits, Compare, Design>, Key, Value,
                                    completed_traits<Traits, occ_avl_traits<Key>>, Compare> {
  using base = internal_map<occ_avl, Key, Value, completed_traits<Traits, occ_avl_traits<Key>>, Compare>;
  using traits = typename base::traits_type;
  friend base;
  using base::store_;
  using typename base::holder;
  using typename base::store;
  using value_word = typename holder::word;

  using parts = occ_avl_node<Key, value_word, traits, Design>;
  using node = typename parts::node;
  using stamp = optimistic_version::stamp;
  using state = typename parts::state;
  using repair = typename parts::repair;

 public:
  using typename base::guard_type;

  /// The same map of other entries, in another order, by other policies.
  template <class K, class V, class C = std::less<K>, class T = Traits>
  using rebind = occ_avl<K, V, T, C, Design>;

  static constexpr map_properties properties{
      .name = Design::name,
      .find_progress = progress::blocking,
      .update_progress = progress::blocking,
      .shape = balance::relaxed,
      .region_protection = true,
      .paper = "Bronson, Casper, Chafi and Olukotun, A Practical Concurrent Binary Search Tree, PPoPP 2010",
      .reads_beside_writers = Design::reads_validate,
      .exchanges = true,
      .bidirectional = true};

  static constexpr std::size_t node_bytes = parts::bytes;
  static constexpr auto node_members = parts::members;

  using base::base;
  /// No other thread may use the map any more.
  ~occ_avl() { base::destroy_all(top()); }

 private:
  using typename base::contract;
  friend contract;

  [[nodiscard]] std::optional<Value> do_find(guard_type&, const Key& key) const {
    place at;
    if (!seek<Design::reads_validate>(to_key{key, base::key_comp()}, at)) return std::nullopt;
    return read(*at.where);
  }

  [[nodiscard]] bool do_contains(guard_type&, const Key& key) const {
    place at;
    return seek<Design::reads_validate>(to_key{key, base::key_comp()}, at) && at.where->is_present();
  }

  bool do_insert(guard_type& guard, const Key& key, const Value& value) {
    return add<false>(guard, key, value);
  }

  bool do_assign(guard_type& guard, const Key& key, const Value& value) {
    return add<true>(guard, key, value);
  }

  template <class Function>
  std::optional<Value> do_update(guard_type& guard, const Key& key, Function&& f) {
    new_node fresh(store_);
    guard.reserve(retirements);
    bool unlinks = false;
    for (backoff pause;; pause.wait(), fresh.word.reset()) {
      place at;
      const bool has_node = seek<true>(to_key{key, base::key_comp()}, at);
      if (has_node && at.where->is_present()) {
        std::optional<Value> before;
        if (change(guard, *at.where, f, fresh.word, before, unlinks)) return before;
        continue;
      }
      const std::optional<Value> value = f(std::nullopt);
      if (!value) return std::nullopt;
      if (!has_node) {
        if (link(guard, at, fresh, key, *value)) return std::nullopt;
      } else if (store_value<false>(guard, *at.where, fresh.word.get(*value)) == outcome::changed) {
        fresh.word.release();
        return std::nullopt;
      }
    }
  }

  bool do_erase(guard_type& guard, const Key& key) {
    guard.reserve(retirements);
    for (backoff pause;; pause.wait()) {
      place at;
      if (!seek<true>(to_key{key, base::key_comp()}, at) || !at.where->is_present()) return false;
      const outcome done =
          at.where->has_two_children() ? make_routing(guard, *at.where) : erase_and_unlink(guard, *at.where);
      if (done != outcome::lost) return done == outcome::changed;
    }
  }

 public:
  // Quiescent only, for tests and inspection.

  /// As in the base. Where nodes are split, the head is visited too, and of each node only the front.
  template <class Visitor>
  void visit_nodes(Visitor&& visitor) const {
    if constexpr (parts::split) visitor(static_cast<const void*>(&*head_), sizeof(node), memory_role::node);
    base::visit_nodes(visitor);
  }

  /// What is wrong with the structure, or null.
  [[nodiscard]] const char* check_invariants() const {
    if ((*head_).is_held()) return "the head is locked";
    if (top() != nullptr && top()->parent_now() != &*head_) return "the top node does not know its parent";
    const auto wrong_with = [](const node& n) -> const char* {
      if (n.is_held()) return "a reachable node is locked";
      if (!n.version.now().steady()) return "a reachable node shrinks or is unlinked";
      for (const std::size_t side : {left, right}) {
        const node* const child = n.child_on(side);
        if (child != nullptr && child->parent_now() != &n) return "a node does not know its parent";
      }
      switch (parts::condition(n)) {
        case repair::none:
          return nullptr;
        case repair::height:
          return "a height is wrong";
        case repair::rotation:
          return "a node is out of balance";
        default:
          return "a routing node has fewer than two children";
      }
    };
    return tree_at_rest::check_internal(base::key_comp(), static_cast<const node*>(top()), wrong_with);
  }

 private:
  using new_node = typename base::template new_node_of<node>;

  /// Retirements reserved before the first change: of the operation's own node and cell, and of the routing
  /// nodes that its repairs unlink while no other thread works there.
  static constexpr unsigned retirements = 4;

  // Seeks.

  static constexpr std::size_t left = 0;
  static constexpr std::size_t right = 1;
  static constexpr std::size_t here = 2;

  /// The way to a key.
  struct to_key {
    Key key;  // a copy: the caller's would be read again after each acquire load
    [[no_unique_address]] comparator_in_use<Compare> less;
    [[nodiscard]] std::size_t at(const node& n) const {
      const bool smaller = less(key, n.key);
      const bool larger = less(n.key, key);
      // Only this is worth a branch: no processor can predict whether it goes left or right.
      if (!(smaller | larger)) return here;
      return larger ? right : left;
    }
    /// The result of a seek that ends at an empty edge of this node.
    [[nodiscard]] node* end(node* last) const noexcept { return last; }
  };

  /// The way to the first node that a bound admits, in its direction.
  template <class Bound>
  struct to_first {
    const Bound* bound;
    node* turned_near = nullptr;
    [[nodiscard]] std::size_t at(node& n) {
      if (!bound->admits(n.key)) return Bound::far;
      turned_near = &n;
      return Bound::near;
    }
    [[nodiscard]] node* end(node*) const noexcept { return turned_near; }
  };

  enum class seek_result : std::uint8_t { found, absent, lost, on_the_way };

  /// Where a seek is: at a node that has this version, and which edge it follows. Where it ended: at the node with the
  /// key, else at what the way's end() returns, and which edge is empty.
  struct place {
    node* where = nullptr;
    std::size_t side = left;
    stamp seen;
  };

  /// True if it found the key's node, whether the key is present or not.
  template <bool Validate, class Target>
  bool seek(const Target& target, place& to) const {
    seek_result how = seek_result::lost;
    // With the published layout a seek is a recursion from the start, as it was published.
    constexpr bool published = traits::layout_type::shape == node_shape::published;
    if constexpr (Design::retry == retry_from::root) {
      while (how == seek_result::lost) how = go_down<Validate>(target, to);
    } else {
      if constexpr (!published) how = go_down<Validate>(target, to);
      while (how == seek_result::lost) how = go_down_from(target, start(), to);
    }
    return how == seek_result::found;
  }

  // order (1): read_edge, acquire
  [[nodiscard]] node* top() const noexcept { return (*head_).child[right].load(std::memory_order_acquire); }
  [[nodiscard]] place start() const noexcept { return {&*head_, right, (*head_).version.now()}; }

  /// The seek as a loop from the top. A round has two steps, so that no step copies the place that it came to.
  template <bool Validate, class Target>
  [[nodiscard]] seek_result go_down(Target target, place& to) const {
    place from = start();
    place next;
    seek_result how = step<Validate>(target, from, next, to);
    while (how == seek_result::on_the_way) {
      how = step<Validate>(target, next, from, to);
      if (how == seek_result::on_the_way) how = step<Validate>(target, from, next, to);
    }
    return how;
  }

  /// The seek as a recursion. After a change further down it goes on from here.
  template <class Target>
  [[nodiscard]] static seek_result go_down_from(const Target& target, const place& from, place& to) {
    while (true) {
      Target next_target = target;
      place next;
      seek_result how = step<true>(next_target, from, next, to);
      if (how == seek_result::on_the_way) how = go_down_from(next_target, next, to);
      if (how != seek_result::lost || !from.where->version.validate(from.seen)) return how;
    }
  }

  template <bool Validate, class Target>
  [[nodiscard, gnu::always_inline]] static seek_result step(Target& target, const place& from, place& next,
                                                            place& to) {
    // order (1): read_edge, acquire
    node* const child = from.where->child[from.side].load(std::memory_order_acquire);
    if (child == nullptr) {
      // LP: the read of the edge, where the key is absent.
      if (Validate && !from.where->version.validate(from.seen)) return seek_result::lost;
      to = {target.end(from.where), from.side, from.seen};
      return seek_result::absent;
    }
    const std::size_t side = target.at(*child);
    if (side == here) {  // on whatever path the seek came here
      to.where = child;
      return seek_result::found;
    }
    next = {child, side, Validate ? child->version.now() : stamp()};
    if constexpr (Validate) {
      if (!next.seen.steady()) [[unlikely]] {
        if (next.seen.changing()) await(*child);
        return seek_result::lost;
      }
      // If the node has not changed, the way down to the child was right when the child had this version, which from
      // now on stands for it.
      if (!from.where->version.validate(from.seen)) [[unlikely]]
        return seek_result::lost;
    }
    return seek_result::on_the_way;
  }

  /// Waits until the rotation that moves the node down is over.
  [[gnu::cold, gnu::noinline]] static void await(const node& n) noexcept {
    static_cast<void>(n.version.read());
  }

  /// The value at a moment at which the key was present, or nothing.
  [[nodiscard]] static std::optional<Value> read(const node& n) {
    while (true) {
      // LP: where the key is absent. order (3): read_status, acquire
      const state before = n.rest().status.load(std::memory_order_acquire);
      if (!parts::is_present(before)) return std::nullopt;
      // LP: where it is present. order (5): read_value, acquire
      const value_word word = n.rest().value.load(std::memory_order_acquire);
      // relaxed: the acquire above orders it.
      if (parts::same_presence(n.rest().status.load(std::memory_order_relaxed), before))
        return holder::read(word);
    }
  }

  template <class Bound>
  [[nodiscard]] std::optional<map_entry<Key, Value>> first_of(Bound bound) const {
    while (true) {
      place at;
      seek<Design::reads_validate>(to_first<Bound>{&bound}, at);
      if (at.where == nullptr) return std::nullopt;
      if (std::optional<Value> value = read(*at.where))
        return map_entry<Key, Value>{at.where->key, std::move(*value)};
      bound.move_behind(at.where->key);
    }
  }

  // Updates. Each of these locks, checks that what the seek saw still holds, and only then writes.

  enum class outcome : std::uint8_t { changed, unchanged, lost };

  template <bool Assign>
  bool add(guard_type& guard, const Key& key, const Value& value) {
    new_node fresh(store_);
    guard.reserve(retirements);
    for (backoff pause;; pause.wait()) {
      place at;
      if (!seek<true>(to_key{key, base::key_comp()}, at)) {
        if (link(guard, at, fresh, key, value)) return true;
        continue;
      }
      if (!Assign && at.where->is_present()) return false;
      const outcome done = store_value<Assign>(guard, *at.where, fresh.word.get(value));
      if (done == outcome::lost) continue;
      if (Assign || done == outcome::changed) fresh.word.release();
      return done == outcome::changed;
    }
  }

  /// Links a new node at the empty edge where a seek ended.
  bool link(guard_type& guard, const place& at, new_node& fresh, const Key& key, const Value& value) {
    const value_word word = fresh.word.get(value);
    if (fresh.made.get() == nullptr)
      fresh.made.emplace(at.where, key, word, parts::present_leaf);
    else  // relaxed: published by the edge. It may be another value than that of the attempt before.
      fresh.made.get()->rest().value.store(word, std::memory_order_relaxed);
    node& n = *at.where;
    repair needed;
    {
      const lock_guard hold(n.rest().lock);
      // relaxed: both are written under the lock only.
      if (!n.version.validate(at.seen)) return false;
      if (n.child[at.side].load(std::memory_order_relaxed) != nullptr) return false;
      // relaxed: published by the edge
      fresh.made.get()->rest().parent.store(&n, std::memory_order_relaxed);
      // LP: insert(true). order (1): link, release
      n.child[at.side].store(fresh.made.release(), std::memory_order_release);
      needed = examine(n);
    }
    fresh.word.release();
    repair_from(guard, {&n, needed, nullptr});
    return true;
  }

  /// Stores a value in the node that has the key. `changed`: the key was absent.
  template <bool Assign>
  outcome store_value(guard_type& guard, node& n, value_word word) {
    value_word old{};
    {
      const lock_guard hold(n.rest().lock);
      if (n.is_unlinked()) return outcome::lost;
      if (!n.is_present()) {
        // order (5): store_value, release
        n.rest().value.store(word, std::memory_order_release);
        n.toggle_presence();  // LP: insert(true)
        return outcome::changed;
      }
      if (!Assign) return outcome::unchanged;
      old = n.rest().value.load(std::memory_order_relaxed);  // relaxed: written under the lock only
      // LP: insert_or_assign(false). order (5): store_value, release
      n.rest().value.store(word, std::memory_order_release);
    }
    holder::retire(store_, guard, old);
    return outcome::unchanged;
  }

  /// Gives the node of a present key the value f(value), or erases the key. False if the caller must seek again: with
  /// `unlinks` set, since the node is to be unlinked, under the lock of its parent too.
  template <class Function>
  bool change(guard_type& guard, node& n, Function& f, typename holder::pending& word,
              std::optional<Value>& before, bool& unlinks) {
    node& parent = *n.parent_now();
    value_word old;
    bool gone = false;
    repair needed = repair::none;
    {
      std::optional<lock_guard<typename parts::lock_type>> hold_parent;
      if (unlinks) {
        hold_parent.emplace(parent.rest().lock);
        if (!parent.is_parent_of(n)) return false;
      }
      const lock_guard hold(n.rest().lock);
      if (n.is_unlinked() || !n.is_present()) return false;
      old = n.rest().value.load(std::memory_order_relaxed);  // relaxed: written under the lock only
      before.emplace(holder::read(old));
      if (std::optional<Value> value = f(before)) {
        // LP: update of a value. order (5): change, release
        n.rest().value.store(word.get(std::move(*value)), std::memory_order_release);
        word.release();
      } else if (n.has_two_children()) {
        n.toggle_presence();  // LP: update to nothing
      } else if (unlinks) {
        parent.unlink(n);  // LP: update to nothing
        needed = examine(parent);
        gone = true;
      } else {
        unlinks = true;
        return false;
      }
    }
    if (gone) {
      base::retire_node(guard, &n);
      repair_from(guard, {&parent, needed, nullptr});
    } else {
      holder::retire(store_, guard, old);
    }
    return true;
  }

  /// Erases a key whose node has two children: the node only routes from now on.
  outcome make_routing(guard_type& guard, node& n) {
    value_word old;
    {
      const lock_guard hold(n.rest().lock);
      if (n.is_unlinked()) return outcome::lost;
      if (!n.is_present()) return outcome::unchanged;
      if (!n.has_two_children()) return outcome::lost;
      // relaxed: written under the lock only.
      old = n.rest().value.load(std::memory_order_relaxed);
      n.toggle_presence();  // LP: erase(true)
    }
    holder::retire(store_, guard, old);
    return outcome::changed;
  }

  /// Erases a key whose node has at most one child, and unlinks the node.
  outcome erase_and_unlink(guard_type& guard, node& n) {
    node& parent = *n.parent_now();
    repair needed;
    {
      const lock_guard hold_parent(parent.rest().lock);
      if (!parent.is_parent_of(n)) return outcome::lost;
      const lock_guard hold(n.rest().lock);
      if (n.is_unlinked()) return outcome::lost;
      if (!n.is_present()) return outcome::unchanged;
      if (n.has_two_children()) return outcome::lost;
      parent.unlink(n);  // LP: erase(true)
      needed = examine(parent);
    }
    base::retire_node(guard, &n);
    repair_from(guard, {&parent, needed, nullptr});
    return outcome::changed;
  }

  // Repairs.

  /// A node that this thread has damaged and examined. Its height is right by now.
  struct damage {
    node* at;
    repair needed;
    node* top;  // the repair goes up at least to this node; null: as far as heights change
  };

  /// Corrects the height of a locked node, and returns what else it needs. `height`: the height was changed,
  /// which damages the parent.
  [[nodiscard]] repair examine(node& n) noexcept {
    if (&n == &*head_ || n.is_unlinked()) return repair::none;
    const repair needed = parts::condition(n);
    if (needed == repair::height) n.correct_height();
    return needed;
  }

  /// Examines the parent of a node that has changed, once it is locked and still the parent.
  [[nodiscard]] damage examine_parent(const node& n, node* top) noexcept {
    while (true) {
      node& parent = *n.parent_now();
      if (&parent == &*head_) return {&*head_, repair::none, nullptr};
      const lock_guard hold(parent.rest().lock);
      if (n.parent_now() == &parent) return {&parent, examine(parent), top};
    }
  }

  /// Repairs until all damage by this thread is repaired.
  void repair_from(guard_type& guard, damage d) noexcept {
    while (d.at != &*head_) {
      if (d.needed == repair::unlink && !can_retire(guard)) d.needed = repair::none;
      if (d.needed == repair::unlink || d.needed == repair::rotation) {
        d = restructure(guard, d);
        continue;
      }
      if (d.at == d.top) d.top = nullptr;
      if (d.needed == repair::none && d.top == nullptr) return;
      d = examine_parent(*d.at, d.top);
    }
  }

  /// Locks the node and its parent. Unlinks or rotates the node if it still needs that.
  [[nodiscard]] damage restructure(guard_type& guard, const damage& d) noexcept {
    node& n = *d.at;
    damage rest = d;
    bool unlinks = false;
    {
      node& parent = *n.parent_now();
      const lock_guard hold_parent(parent.rest().lock);
      if (!parent.is_parent_of(n)) {
        if (n.is_unlinked()) rest.needed = repair::none;
        return rest;  // the caller tries again
      }
      const lock_guard hold(n.rest().lock);
      rest.needed = examine(n);
      if (rest.needed == repair::rotation) return rotate(parent, n, d.top);
      // If no retirement is reserved, the next round unlinks.
      unlinks = rest.needed == repair::unlink && d.needed == repair::unlink;
      if (unlinks) {
        parent.unlink(n);
        rest = {&parent, examine(parent), d.top == &n ? nullptr : d.top};
      }
    }
    if (unlinks) base::retire_node(guard, &n);
    return rest;
  }

  /// Balances a node: its higher child moves up, or the inner child of that one. The node and its parent are
  /// locked.
  [[nodiscard]] damage rotate(node& parent, node& n, node* top) noexcept {
    const std::size_t high =
        parts::height_of(n.child_on(left)) > parts::height_of(n.child_on(right)) ? left : right;
    const std::size_t low = 1 - high;
    node& child = *n.child_on(high);
    const lock_guard hold_child(child.rest().lock);
    // The child's height is stable now. There may be nothing left to do.
    if (parts::height_of(&child) <= parts::height_of(n.child_on(low)) + 1) return {&n, examine(n), top};
    node* const outer = child.child_on(high);
    node* const inner = child.child_on(low);
    const auto rotate_once = [&] {
      parts::rotate(parent, n, child, high);
      return lowest(parent, child, n, top);
    };
    if (parts::height_of(inner) <= parts::height_of(outer)) return rotate_once();
    const lock_guard hold_inner(inner->rest().lock);
    if (parts::height_of(inner) <= parts::height_of(outer)) return rotate_once();
    // A double rotation moves the inner child's own inner side to the child. It must not leave the child
    // damaged beside n: a repair goes on upwards, from one node. Where it would, only its first half is made,
    // and n is repaired after the child.
    node* const moves = inner->child_on(high);
    const bool routes = !child.is_present();
    if (!parts::balanced(parts::height_of(outer), parts::height_of(moves)) ||
        (routes && (outer == nullptr || moves == nullptr))) {
      parts::rotate(n, child, *inner, low);
      return lowest(n, *inner, child, top);
    }
    parts::rotate(parent, n, child, *inner, high);
    return lowest(parent, *inner, n, top);
  }

  /// Where the repair goes on after a rotation that has moved `down` below `up`, all still locked. It goes up
  /// to the parent, whatever other threads repair on the way.
  [[nodiscard]] damage lowest(node& parent, node& up, node& down, node* top) noexcept {
    if (top == nullptr || top == &down) top = &parent;
    if (const repair needed = examine(down); needed != repair::none) return {&down, needed, top};
    if (const repair needed = examine(up); needed != repair::none) return {&up, needed, top};
    return {&parent, examine(parent), top};
  }

  // Memory.

  static bool can_retire(guard_type& guard) noexcept {
    try {
      guard.reserve(1);
      return true;
    } catch (const std::bad_alloc&) {
      return false;
    }
  }

  /// A routing node has no value any more. relaxed: the node is at rest, or out of reach.
  static const Value* cell_of(const node& n) noexcept {
    return n.is_present() ? n.rest().value.load(std::memory_order_relaxed) : nullptr;
  }

  alignas(hw::false_sharing_bytes) mutable typename parts::template head<store> head_{store_};
};

}  // namespace espalier
