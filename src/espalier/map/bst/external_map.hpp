#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <optional>
#include <type_traits>
#include <utility>

#include "espalier/map/bst/tree_at_rest.hpp"
#include "espalier/map/map_facade.hpp"
#include "espalier/map/node_store.hpp"
#include "espalier/map/tagged_ptr.hpp"
#include "espalier/memory/placement_concept.hpp"

namespace espalier {

/// Visits the leaves that the bound admits, in its direction, until visit(leaf) returns false. Allocates nothing.
///
/// It keeps the last few nodes at which it turned to the near side, because their far sides are still to be visited.
/// Where these run out, it starts again from the root and resumes by key. It requires of the tree that a node, once
/// reached, leads to every key that was below it and stays present, even if the node is detached meanwhile; and that
/// keys never move between leaves. A key that is present throughout is then found once: it lies below one of the kept
/// nodes, or beyond them all. The comparison with the last key visited keeps the order strict if a kept node has been
/// detached and its former range has new keys.
template <class Key, class Bound, class Root, class Child, class Visit>
void external_scan(Bound bound, Root&& root, Child&& child, Visit&& visit) {
  using node = std::remove_cvref_t<decltype(*root())>;
  constexpr std::size_t kept_most = 64;
  std::array<const node*, kept_most> kept;  // a ring: the oldest is lost first
  std::optional<Key> last;
  while (true) {
    std::size_t turns = 0;  // kept at index (turns - 1) % kept_most and before
    std::size_t lost = 0;
    const node* n = root();
    bool by_key = true;  // after the first leaf, always to the near side
    while (n != nullptr) {
      while (true) {
        const std::size_t side = by_key && !bound.admits_near(n->key) ? Bound::far : Bound::near;
        const node* const next = child(*n, side);
        if (next == nullptr) break;
        if (side == Bound::near) {
          kept[turns++ % kept_most] = n;
          if (turns - lost > kept_most) ++lost;
        }
        n = next;
      }
      if (bound.admits(n->key)) {
        last = n->key;
        bound.move_behind(*last);
        if (!visit(*n)) return;
      }
      by_key = false;
      n = turns > lost ? child(*kept[--turns % kept_most], Bound::far) : nullptr;
    }
    if (lost == 0) return;
  }
}

/// The part of an external search tree that is the same for all algorithms: reading. Finds and scans walk from the top
/// by acquire loads, look at no mark and no lock, and write nothing.
///
/// The algorithm derives from it. It brings `node` (with key, child[2] of atomic edges, an atomic value and is_leaf()),
/// and top(), the node to which the outermost edge points, or null. It promises what makes such a walk right: a node's
/// range of keys never shrinks while it is linked, the edges of a detached node never change, and entries never move
/// between leaves (ext_lf moves them, and says why its walks are right all the same). A walk that stands on a detached
/// node then still leads to every key that was below it.
///
/// The algorithm brings do_insert(), do_assign() and do_erase() of the contract (map_facade.hpp).
///
/// Linearization points: the read of the edge to the leaf, for find and contains and for each visit of a scan; for the
/// value see node_store.hpp.
///
/// Orderings
///   (1) publish, swing (release) in map/bst/edge_ext_lf.hpp, link, unlink (release) in map/bst/ticket.hpp, swing
///       (release) in map/bst/ext_lf.hpp -> read_edge (acquire): a thread that reaches a node sees it constructed,
///       with the value of its insert.
///   (2) assign (release) in map/node_store.hpp, replace_value (release) in map/bst/ticket.hpp -> read_value
///       (acquire): a thread that finds a value sees its cell, and what the writer did before it stored the value.
template <class Map, class Key, class Value, class Traits, class Compare>
class external_map : public stored_map<Map, Key, Value, Compare, node_store<Traits>> {
  using base = stored_map<Map, Key, Value, Compare, node_store<Traits>>;

 public:
  using traits_type = Traits;
  using typename base::guard_type;

  using base::base;

  // Quiescent only, for tests and inspection.

  /// Calls visitor(address, bytes, role) for every block that the map reaches.
  template <class Visitor>
  void visit_nodes(Visitor&& visitor) const {
    tree_at_rest::visit_all(self().top(), [&](const auto& n) {
      visitor(static_cast<const void*>(&n), sizeof(n), role_of(n));
      if constexpr (!holder::in_place) {
        // order (2): read_value, acquire: more than needed at rest.
        if (n.is_leaf())
          visitor(static_cast<const void*>(n.value.load(std::memory_order_acquire)), sizeof(Value),
                  memory_role::value);
      }
    });
  }

 protected:
  using typename base::contract;
  friend contract;
  friend base;
  using base::equal;
  using base::less;
  using base::store_;
  using typename base::store;
  using holder = value_holder<store, Value>;

  // No other thread may use the map any more.
  ~external_map() = default;

  [[nodiscard]] std::optional<Value> do_find(guard_type&, const Key& key) const {
    const auto* const leaf = seek_leaf(key);
    if (leaf == nullptr || !equal(leaf->key, key)) return std::nullopt;
    return holder::read(leaf->value.load(std::memory_order_acquire));  // order (2): read_value, acquire
  }

  [[nodiscard]] bool do_contains(guard_type&, const Key& key) const {
    const auto* const leaf = seek_leaf(key);
    return leaf != nullptr && equal(leaf->key, key);
  }

  template <class Bound, class Visit>
  void do_scan(guard_type&, const Bound& bound, Visit&& visit) const {
    external_scan<Key>(
        bound, [this] { return self().top(); }, [](const auto& n, std::size_t s) { return child(n, s); },
        [&](const auto& leaf) {
          // order (2): read_value, acquire
          return visit(leaf.key, holder::read(leaf.value.load(std::memory_order_acquire)));
        });
  }

  /// Frees all nodes; for the destructor of the algorithm.
  template <class Node>
  void destroy_all(Node* top) noexcept {
    if constexpr (store::template must_visit<Node>() || holder::must_visit())
      tree_at_rest::destroy_external(top, [this](Node* n) { destroy(store_, n); });
  }

  template <class Node>
  std::size_t side(const Key& key, const Node& n) const {
    return less(key, n.key) ? 0 : 1;
  }

  template <class Node>
  static memory_role role_of(const Node& n) noexcept {
    return n.is_leaf() ? memory_role::leaf : memory_role::node;
  }

  /// For a node that no thread can reach.
  template <class Node>
  static void destroy(store& owner, Node* n) noexcept {
    const memory_role role = role_of(*n);
    // relaxed: the reclaimer, or the owner of the map, has ordered this after all accesses.
    if (role == memory_role::leaf) holder::discard(owner, n->value.load(std::memory_order_relaxed));
    owner.destroy(role, n);
  }

 private:
  const Map& self() const noexcept { return static_cast<const Map&>(*this); }

  template <class Node>
  static const Node* child(const Node& n, std::size_t s) noexcept {
    // order (1): read_edge, acquire
    return to_pointer(n.child[s].load(std::memory_order_acquire));
  }

  /// The leaf where the key is or would be, or null.
  [[nodiscard]] auto seek_leaf(const Key& key) const {
    const auto* n = self().top();
    if (n != nullptr) {
      while (const auto* const next = child(*n, side(key, *n))) n = next;
    }
    return n;
  }
};

/// The nodes of an insert in progress: a leaf with the entry, and a router for this leaf and the one that was there.
/// They are created at the first attempt, kept over retries, and freed unless linked() was called.
template <class Store, class Node, class Holder, class Key, class Value, class Compare>
class insertion {
 public:
  insertion(Store& store, const Compare& less) noexcept
      : word(store), less_(less), leaf_(store, memory_role::leaf), router_(store, memory_role::node) {}

  /// The node to link: the leaf alone into an empty tree (old_leaf is null), else the router, below `parent`. The value
  /// is another one only after a reset of the word.
  Node* prepare(const Key& key, const Value& value, Node* old_leaf, Node* parent) {
    if (old_leaf != nullptr && router_.get() == nullptr) router_.emplace(parent, key, nullptr, nullptr);
    const auto held = word.get(value);
    if (leaf_.get() == nullptr)
      leaf_.emplace(nullptr, key, held);
    else  // relaxed: published by the store or the CAS that links the leaf.
      leaf_.get()->value.store(held, std::memory_order_relaxed);
    if (old_leaf == nullptr) return top_ = leaf_.get();
    using edge_word = typename decltype(Node::child)::value_type::value_type;
    top_ = router_.get();
    const bool goes_left = less_(key, old_leaf->key);
    top_->key = goes_left ? old_leaf->key : key;
    // relaxed: published by the store or the CAS that links the router.
    top_->child[goes_left ? 0 : 1].store(edge_word(leaf_.get()), std::memory_order_relaxed);
    top_->child[goes_left ? 1 : 0].store(edge_word(old_leaf), std::memory_order_relaxed);
    return top_;
  }

  /// To be called once the last result of prepare() is part of the tree.
  void linked() noexcept {
    leaf_.release();
    if (top_ == router_.get()) router_.release();
    word.release();
  }

  /// The value's word, to be assigned where the leaf turns out to be there.
  typename Holder::pending word;  // NOLINT(misc-non-private-member-variables-in-classes)

 private:
  [[no_unique_address]] comparator_in_use<Compare> less_;
  unpublished<Store, Node> leaf_;
  unpublished<Store, Node> router_;
  Node* top_ = nullptr;
};

}  // namespace espalier
