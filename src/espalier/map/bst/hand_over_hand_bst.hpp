#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>

#include "espalier/hw/cache_line.hpp"
#include "espalier/map/bst/locked_tree.hpp"
#include "espalier/map/bst/tree_at_rest.hpp"
#include "espalier/map/map_concept.hpp"
#include "espalier/map/map_traits.hpp"
#include "espalier/map/scan.hpp"
#include "espalier/sync/lock_concept.hpp"

// hand_over_hand_bst: internal binary search tree with a lock in each node, coupled from the top down.
// A baseline; lock coupling is that of Bayer and Schkolnick, "Concurrency of Operations on B-Trees", Acta
// Informatica 1977.
//
// Essence. Every operation, reads included, locks a node while it still holds the node above it, and only then
// releases that one. Operations on one path therefore never overtake one another, and no field is atomic: a
// node's lock guards its key, its value and its two edges; head_'s lock guards the edge to the root. An erase
// of a node with two children keeps that node and the one above it locked, and walks to the successor by
// coupling. It overwrites key and value with the successor's, and unlinks the successor, which has no left
// child.
//
// Invariants. A thread locks a node only while it holds the lock above it; locks are taken downwards only, so
// there is no deadlock. Keys left of an unlocked node are smaller than its key, keys right of it larger.
//
// Keys move, but upwards only, and only past locked nodes. Let x be a key that a seek looks for, or that a scan
// must not miss. Let n be the locked node at which the seek stands, with x in the subtree where it turns. To
// leave that subtree x would have to be written into n, which needs n's lock, or into a node t above n. An
// erase that writes x into t holds t while it walks down to x, through n. If it locked t before the seek did, it
// completed and released t before the seek came there. If it locked t after the seek did, it comes behind the
// seek, and waits at n or above. The path above the seek changes otherwise only by nodes that are unlinked: new
// nodes are linked at empty edges. So x is still below n when the seek goes on. The seek finds x, or it comes to
// an empty edge, and x was then absent.
//
// A scan repeatedly takes the next key beyond the last one, in either direction. Each time it seeks from head_, and
// copies key and value of the best candidate while it holds that node. By the above, such a seek passes no key between
// the bound and its answer that is present throughout; no key is an answer twice.
//
// Progress: blocking, every operation. A lock holder that is descheduled stops all threads that come to its
// node; at the root these are all threads.
//
// Reclamation: at once. A thread that waits for the lock of a node holds the lock above it, where it read the
// edge. The erase that unlinks a node holds that lock and the node's own: no thread waits for the node, no
// thread stands on it, and with the edge gone no thread will come. It frees the node after its locks are
// released. The traits' reclaimer has nothing to do, and the map uses `unprotected` instead.
//
// Linearization points
//   insert, insert_or_assign -> true     link: the store of the edge
//   insert -> false, assign -> false     at the node with the key, while it is locked
//   erase -> true                        detach, or relocate: its last store
//   find, contains -> present            at the node with the key, while it is locked
//   erase -> false, find, contains       the read of the empty edge
//
// Orderings
//   (1) unlock (lock) in sync/lock_concept.hpp -> lock (lock) in sync/lock_concept.hpp: a node's fields are as their
//       last writer left them. No field is atomic.

namespace espalier {

template <class Key, class Value, class Traits = map_traits, class Compare = std::less<Key>>
class hand_over_hand_bst : public locked_tree<hand_over_hand_bst<Key, Value, Traits, Compare>, Key, Value,
                                              completed_traits<Traits, locked_nodes_traits>, Compare> {
  using base =
      locked_tree<hand_over_hand_bst, Key, Value, completed_traits<Traits, locked_nodes_traits>, Compare>;
  using traits = typename base::traits_type;
  friend base;
  using typename base::contract;
  friend contract;
  using lock_type = typename traits::lock_type;
  static_assert(lockable<lock_type>, "a descent hands locks on: a lock with a queue node will not do");

  struct node;

  // Fields of seeks first: 24 of 40 bytes. The lock lies behind the value.
  struct fields {
    Key key;
    std::array<node*, 2> child;
    Value value;
    lock_type lock;

    fields(const Key& k, const Value& v) noexcept(std::is_nothrow_copy_constructible_v<Value>)
        : key(k), child{}, value(v), lock{} {}
  };

  struct alignas(compact_layout::node_align(sizeof(fields), alignof(fields))) node : fields {
    using fields::fields;
  };

  static_assert(sizeof(Key) != 8 || alignof(Key) != 8 || sizeof(Value) != 8 || alignof(Value) != 8 ||
                    sizeof(lock_type) != 4 ||
                    (offsetof(fields, key) == 0 && offsetof(fields, child) == 8 &&
                     offsetof(fields, value) == 24 && offsetof(fields, lock) == 32 && sizeof(fields) == 40),
                "the layout of a node, on which the measured figures rest, has changed");

 public:
  using typename base::guard_type;

  /// The same map of other entries, in another order, by other policies.
  template <class K, class V, class C = std::less<K>, class T = Traits>
  using rebind = hand_over_hand_bst<K, V, T, C>;

  static constexpr map_properties properties{
      .name = "hand_over_hand_bst",
      .find_progress = progress::blocking,
      .update_progress = progress::blocking,
      .shape = balance::none,
      .region_protection = false,
      .paper = "baseline: lock coupling after Bayer and Schkolnick, Acta Informatica 1977",
      .exchanges = true,
      .bidirectional = true};

  static constexpr std::size_t node_bytes = sizeof(node);
  static constexpr auto node_members =
      std::to_array<node_member>({{"key", offsetof(fields, key), sizeof(Key), search_use::all},
                                  {"child", offsetof(fields, child), sizeof(fields::child), search_use::half},
                                  {"value", offsetof(fields, value), sizeof(Value)},
                                  {"lock", offsetof(fields, lock), sizeof(lock_type)}});

  using base::base;
  /// No other thread may use the map any more.
  ~hand_over_hand_bst() { base::destroy_all(head_.root); }

  // Quiescent only, for tests and inspection.

  /// What is wrong with the structure, or null.
  [[nodiscard]] const char* check_invariants() const {
    if (is_seen_held(head_.lock)) return "the head is locked";
    return tree_at_rest::check_internal(base::key_comp(), top(), [](const node& n) {
      return is_seen_held(n.lock) ? "a reachable node is locked" : static_cast<const char*>(nullptr);
    });
  }

 private:
  [[nodiscard]] const node* top() const noexcept { return head_.root; }

  /// A lock held, or none. Assignment takes over the other lock first, and then releases its own: one step
  /// hand over hand.
  class [[nodiscard]] held {
   public:
    held() noexcept = default;
    explicit held(lock_type& lock) : lock_(&lock) { lock.lock(); }
    held(held&& other) noexcept : lock_(std::exchange(other.lock_, nullptr)) {}
    held& operator=(held&& other) noexcept {
      lock_type* const before = std::exchange(lock_, std::exchange(other.lock_, nullptr));
      if (before != nullptr) before->unlock();
      return *this;
    }
    ~held() {
      if (lock_ != nullptr) lock_->unlock();
    }

   private:
    lock_type* lock_ = nullptr;
  };

  /// What a seek holds.
  struct locks {
    held above;  // guards the edge
    held on;     // guards the target, where there is one

    explicit locks(const hand_over_hand_bst& map) : above(map.head_.lock) {}
  };

  /// Where a seek ended.
  struct place {
    node** edge;   // to the target, or null where the key would be
    node* parent;  // the node that has the edge; null for head_
    // The node with the key. Kept, since the locks' atomics would have the compiler read it again from the edge.
    node* target;
  };

  [[nodiscard]] place seek(const Key& key, locks& hold) const {
    place at{&head_.root, nullptr, head_.root};
    while (at.target != nullptr) {
      node& n = *at.target;
      hold.on = held(n.lock);
      std::size_t side = 0;
      if (!base::less(key, n.key)) {
        if (!base::less(n.key, key)) break;
        side = 1;
      }
      hold.above = std::move(hold.on);
      at = {&n.child[side], &n, n.child[side]};
    }
    return at;
  }

  [[nodiscard]] static node* unlink(const place& at) {
    node* const target = at.target;
    const std::array<node*, 2>& child = target->child;
    if (child[0] != nullptr && child[1] != nullptr) return relocate(*target);
    *at.edge = child[child[0] == nullptr ? 1 : 0];  // LP: erase(true)
    return target;
  }

  /// Overwrites a locked node that has two children with its successor, and unlinks the successor's node.
  [[nodiscard]] static node* relocate(node& target) {
    held above;  // guards the edge, unless that is the target's
    node** edge = &target.child[1];
    held on((*edge)->lock);
    while (node* const left = (*edge)->child[0]) {
      held next(left->lock);
      edge = &(*edge)->child[0];
      above = std::move(on);
      on = std::move(next);
    }
    node* const successor = *edge;
    target.key = successor->key;
    espalier::replace(target.value, std::move(successor->value));
    *edge = successor->child[1];
    return successor;
  }

  /// A seek for each entry. The visitor is called with no lock held, and may call the map.
  template <class Bound, class Visit>
  void do_scan(guard_type&, const Bound& bound, Visit&& visit) const {
    stepwise_scan(bound, [this](const auto& from) { return this->first_of(from); }, visit);
  }

  /// The first entry that the bound admits.
  template <class Bound>
  [[nodiscard]] std::optional<map_entry<Key, Value>> first_of(const Bound& bound) const {
    std::optional<map_entry<Key, Value>> best;
    held at(head_.lock);
    node* next = head_.root;
    while (next != nullptr) {
      node& n = *next;
      at = held(n.lock);
      const bool in_range = bound.admits(n.key);
      if (in_range) best.emplace(map_entry<Key, Value>{n.key, n.value});
      next = n.child[in_range ? Bound::near : Bound::far];
    }
    return best;
  }

  struct head {
    lock_type lock;
    node* root = nullptr;
  };

  alignas(hw::false_sharing_bytes) mutable head head_;
};

}  // namespace espalier
