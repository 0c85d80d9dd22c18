#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>

#include "espalier/map/bst/tree_at_rest.hpp"
#include "espalier/map/map_concept.hpp"
#include "espalier/map/map_traits.hpp"
#include "espalier/map/node_layout.hpp"
#include "espalier/map/rlu_map.hpp"
#include "espalier/map/scan.hpp"
#include "espalier/memory/placement_concept.hpp"
#include "espalier/reclaim/rlu.hpp"

// rlu_tree: internal binary search tree by read-log-update.
// Matveev, Shavit, Felber and Marlier, "Read-Log-Update: A Lightweight Synchronization Mechanism for Concurrent Programming",
// SOSP 2015. The paper's tree is that of Arbel and Attiya (map/bst/citrus.hpp) with RLU in place of RCU and locks.
//
// Essence. map/rlu_map.hpp has all that does not depend on the structure. An insert locks the node above its key. An erase locks its
// node, and the node above where it has one child at most. The entry of one with two children is replaced by that of its successor,
// whose node goes: in one commit, so no section sees the entry twice or not at all.
//
// Differences from citrus:
//  1. The key moves to the node of the erased entry, with the value. Citrus puts a copy of the successor in the place of the node,
//     whose parent it has to lock too. So keys are fields that writers change, and an erase locks three nodes at most and allocates
//     nothing.
//  2. No sentinel keys: the tree hangs on the left edge of the head.
//  3. No tags of empty edges and no validation, which citrus needs: what is locked has not changed since the section began.
//
// Why an update need not lock the nodes on its path. What decides where a key belongs are the keys above. One of them changes only
// where an erase moves the successor s of an entry e up. No key of the tree lies between the two. The place of one that is inserted
// there is the empty left edge of the node of s, which both the insert and the erase lock. For all other keys the path stays right.
// That s is still the leftmost node of its subtree follows from the lock on it, which an insert to its left would need. A node on
// the way to s that is erased meanwhile leaves s where it is, or is the node above, which the erase of e locks.
//
// Invariants, where no commit is in progress: keys left of a node are smaller than its key, keys right of it larger.
//
// Orderings: those of reclaim/rlu.hpp. No field is atomic.

namespace espalier {

namespace rlu_tree_parts {

template <class Key, class Word>
struct node;

template <class Key, class Word>
struct fields {
  Key key{};
  std::array<node<Key, Word>*, 2> child{};
  Word value{};
};

template <class Key, class Word>
struct unaligned_node : rlu_domain<fields<Key, Word>>::object {
  unaligned_node(const Key&, const fields<Key, Word>& f) noexcept
      : rlu_domain<fields<Key, Word>>::object(f) {}
};

template <class Key, class Word>
struct alignas(compact_layout::node_align(sizeof(unaligned_node<Key, Word>),
                                          alignof(unaligned_node<Key, Word>))) node
    : unaligned_node<Key, Word> {
  using unaligned_node<Key, Word>::unaligned_node;
};

}  // namespace rlu_tree_parts

template <class Key, class Value, class Traits = map_traits, class Compare = std::less<Key>>
class rlu_tree : public rlu_map<rlu_tree<Key, Value, Traits, Compare>, Key, Value,
                                completed_traits<Traits, rlu_traits>, Compare, rlu_tree_parts::fields> {
  using base =
      rlu_map<rlu_tree, Key, Value, completed_traits<Traits, rlu_traits>, Compare, rlu_tree_parts::fields>;
  friend base;
  using base::head_;
  using base::less;
  using base::rlu_;
  using base::store_;
  using typename base::contract;
  friend contract;
  using typename base::fields;
  using typename base::holder;
  using typename base::object;
  using typename base::section;
  using typename base::store;
  using node = rlu_tree_parts::node<Key, typename holder::word>;

  static_assert(sizeof(Key) != 8 || alignof(Key) != 8 || sizeof(typename holder::word) != 8 ||
                    sizeof(node) == 40,
                "the layout of a node, on which the measured figures rest, has changed");

 public:
  using typename base::guard_type;

  /// The same map with other entries, another order or other policies.
  template <class K, class V, class C = std::less<K>, class T = Traits>
  using rebind = rlu_tree<K, V, T, C>;

  static constexpr map_properties properties{
      .name = "rlu_tree",
      .find_progress = progress::lock_free,
      .update_progress = progress::blocking,
      .shape = balance::none,
      .region_protection = true,
      .paper = "Matveev, Shavit, Felber and Marlier, Read-Log-Update, SOSP 2015",
      .updates_await_reads = true,
      .exchanges = true,
      .bidirectional = true};

  static constexpr std::size_t node_bytes = sizeof(node);
  static constexpr auto node_members = [] {
    constexpr std::size_t first = sizeof(void*);
    return std::to_array<node_member>(
        {{"copy", 0, sizeof(void*), search_use::all},
         {"key", first + offsetof(fields, key), sizeof(Key), search_use::all},
         {"child", first + offsetof(fields, child), sizeof(fields::child), search_use::half},
         {"value", first + offsetof(fields, value), sizeof(fields::value)}});
  }();

  using base::base;
  /// No other thread may use the map any more.
  ~rlu_tree() {
    if constexpr (store::template must_visit<node>() || holder::must_visit())
      tree_at_rest::destroy_internal(top_at_rest(), [this](node* n) { base::destroy(store_, n); });
  }

  // Quiescent only, for tests and inspection.

  /// Calls visitor(address, bytes, role) for every block that the map reaches.
  template <class Visitor>
  void visit_nodes(Visitor&& visitor) const {
    tree_at_rest::visit_all(static_cast<const node*>(top_at_rest()), [&](const node& n) {
      visitor(static_cast<const void*>(&n), sizeof(node), memory_role::node);
      if constexpr (!holder::in_place)
        visitor(static_cast<const void*>(n.fields().value), sizeof(Value), memory_role::value);
    });
  }

  /// What is wrong with the structure, or null.
  [[nodiscard]] const char* check_invariants() const {
    if (head_.is_locked()) return "the head is locked";
    if (head_.fields().child[1] != nullptr) return "the head has a right child";
    return tree_at_rest::check_internal(
        base::key_comp(), static_cast<const node*>(top_at_rest()),
        [](const node& n) { return n.is_locked() ? "a linked node is locked" : nullptr; });
  }

 private:
  struct place {
    object* before;
    std::size_t side;  // of the edge
    node* at;          // the node with the key, or null
  };

  [[nodiscard]] node* top_at_rest() const noexcept { return head_.fields().child[0]; }

  [[nodiscard]] place seek(const section& now, const Key& key) const {
    place at{&head_, 0, now.read(head_).child[0]};
    while (at.at != nullptr) {
      const fields& own = now.read(*at.at);
      const bool right = less(own.key, key);
      if (!right && !less(key, own.key)) break;
      at = {at.at, right ? std::size_t{1} : std::size_t{0}, own.child[right ? 1 : 0]};
    }
    return at;
  }
  [[nodiscard]] static bool found(const place& at, const Key&) noexcept { return at.at != nullptr; }

  [[nodiscard]] static fields fields_at(const place&, const Key& key, typename holder::word word) noexcept {
    return {key, {}, word};
  }
  [[nodiscard]] static node*& edge(fields& before, const place& at) noexcept { return before.child[at.side]; }

  bool unlink(guard_type& guard, section& now, const place& at) noexcept {
    fields* const own = now.try_write(*at.at);
    if (own == nullptr) return false;
    if (own->child[0] != nullptr && own->child[1] != nullptr) return replace(guard, now, *at.at, *own);
    fields* const before = now.try_write(*at.before);
    if (before == nullptr) return false;
    before->child[at.side] = own->child[own->child[0] != nullptr ? 0 : 1];
    now.commit();  // LP: erase(true)
    base::retire_node(guard, at.at);
    return true;
  }

  /// Moves the entry of the successor to a locked node with two children.
  bool replace(guard_type& guard, section& now, node& erased, fields& own) noexcept {
    node* above = &erased;
    node* successor = own.child[1];
    while (node* const next = now.read(*successor).child[0]) above = std::exchange(successor, next);
    const fields* const moved = now.try_write(*successor);
    if (moved == nullptr) return false;
    fields* const before = above == &erased ? &own : now.try_write(*above);
    if (before == nullptr) return false;
    before->child[above == &erased ? 1 : 0] = moved->child[1];
    own.key = moved->key;
    const auto old = std::exchange(own.value, moved->value);
    now.commit();  // LP: erase(true)
    store_.template retire<node, memory_role::node>(guard,
                                                    successor);  // its cell is that of the other node now
    holder::retire(store_, guard, old);
    return true;
  }

  /// The visitor may call the map.
  template <class Bound, class Visit>
  void do_scan(guard_type&, const Bound& bound, Visit&& visit) const {
    if constexpr (is_first_only<std::remove_cvref_t<Visit>>) {
      std::optional<map_entry<Key, Value>> first;
      {
        const section now(rlu_);
        if (const fields* const at = first_of(now, bound)) first.emplace(at->key, holder::read(at->value));
      }
      if (first) visit(first->key, first->value);
    } else {
      using batch = entry_batch<Key, Value>;
      batched_scan<Key, Value>(bound, [this](batch& out, const Bound& from) { fill(out, from); }, visit);
    }
  }
  /// Copies up to 64 entries in a section, with a seek for each.
  template <class Batch, class Bound>
  void fill(Batch& out, Bound from) const {
    const section now(rlu_);
    while (!out.full()) {
      const fields* const at = first_of(now, from);
      if (at == nullptr) return;
      out.add(at->key, holder::read(at->value));
      from.move_behind(at->key);
    }
  }
  /// The entry that the bound admits first, or null.
  template <class Bound>
  [[nodiscard]] const fields* first_of(const section& now, const Bound& bound) const {
    const fields* best = nullptr;
    for (const node* n = now.read(head_).child[0]; n != nullptr;) {
      const fields& own = now.read(*n);
      const bool in_range = bound.admits(own.key);
      if (in_range) best = &own;
      n = own.child[in_range ? Bound::near : Bound::far];
    }
    return best;
  }
};

}  // namespace espalier
