#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <optional>
#include <type_traits>

#include "espalier/map/btree/node.hpp"
#include "espalier/map/node_store.hpp"
#include "espalier/map/scan.hpp"
#include "espalier/sync/backoff.hpp"
#include "espalier/sync/optimistic_lock.hpp"

// The inner part of a B+tree whose nodes have optimistic locks: seeks, splits, merges and scans by optimistic lock
// coupling. Leis, Haubenschild and Neumann, "Optimistic Lock Coupling: A Scalable and Efficient General-Purpose
// Synchronization Method", IEEE Data Engineering Bulletin 42(1), 2019.
//
// A seek takes no lock. From a node it reads the pointer to a child, validates the node, begins a section of the child,
// and validates the node again: then the child was its child when the section of the child began. The first validation
// is what allows the seek to touch the child at all, and the second one what a merge in between would break. A seek
// that fails starts again from the root.
//
// The tree derives from it, and changes leaves by its own rules. Where a leaf has no room, it calls make_room(). Where a
// leaf has become sparse, it calls merge_sparse(). Both walk down from the root, as a seek does, and make one change at
// a time, with the locks of the nodes that it concerns:
//
//   split     the parent, the full node. All nodes above have room by then, so nothing propagates upwards.
//   merge     the parent, the left node, the right node
//   the root  the anchor, the root
//
// No thread waits for a lock while it holds one: upgrade() never waits. So there is no deadlock.
//
// Invariants
//   (B1) The keys below a node lie between the separators beside its pointer in its parent, and so on up. This range
//        changes only with the node's lock held, and the node's version with it.
//   (B2) A node that is not linked is obsolete. It becomes so with its parent's lock held, before the parent's version
//        changes.
//   (B3) All leaves have the same depth. A node is full, sparse or empty only until a later update of its range; nothing
//        depends on that.
//
// Reclamation. The merge that unlinks the right node retires it after it has released its lock, and the one that unlinks
// a root that has a single child retires that root. (I1) The parent held the only pointer, or the anchor. (I2) They hold
// the lock of what they unlink, and what is obsolete is never locked again. (I3) A pointer to a node is written when the
// node is created, or moved between nodes that are locked, of which one keeps it.
//
// Memory. make_room() throws std::bad_alloc with the tree unchanged. An erase reserves room for the retirements of
// merge_sparse(), which therefore does not throw.
//
// Orderings: those of sync/optimistic_lock.hpp. A node is published by the store of its pointer with its parent's lock
// held, and reached by a load that this protocol validates.

namespace espalier::btree {

template <class Map, class Key, class Value, class Traits, class Compare, template <class Word> class LeafOf,
          unsigned Children>
class coupled_tree : public stored_map<Map, Key, Value, Compare, node_store<Traits>> {
  static_assert(std::is_trivially_copyable_v<Key> && std::is_default_constructible_v<Key> &&
                    sizeof(Key) <= sizeof(void*) && std::atomic<Key>::is_always_lock_free,
                "keys move between nodes while others read them: a key must fit an atomic machine word");
  using base = stored_map<Map, Key, Value, Compare, node_store<Traits>>;

 public:
  using traits_type = Traits;
  using base::base;
  using typename base::guard_type;

 protected:
  using typename base::contract;
  friend contract;
  friend base;
  using base::store_;
  using typename base::store;
  using holder = value_holder<store, Value>;
  using word = typename holder::word;
  using section = optimistic_lock::read_section;

  template <class Fields>
  struct alignas(Traits::layout_type::node_align(sizeof(Fields), alignof(Fields))) laid_out : Fields {
    using Fields::Fields;
  };
  using inner = laid_out<inner_node<Key, Children>>;
  using leaf = laid_out<LeafOf<word>>;

  /// A node that a seek has reached.
  struct place {
    inner* parent;    ///< null where that is the anchor
    section above;    ///< of the parent
    unsigned index;   ///< of the node in its parent
    node_base* node;  ///< null while the map is empty
    section here;     ///< of the node, or of the anchor while the map is empty

    [[nodiscard]] leaf& as_leaf() const noexcept { return *static_cast<leaf*>(node); }
  };

  ~coupled_tree() = default;

  /// The leaf of a key. Waits while it is locked.
  [[nodiscard]] place seek(const Key& key) const {
    for (backoff pause;; pause.wait()) {
      if (const auto at = try_seek(child_of(key), [](const place&) { return false; })) return *at;
    }
  }

  /// The first leaf of an empty map. Returns with one, made by this thread or by another one.
  void make_root(const section& seen) {
    unpublished<store, leaf> fresh(store_, memory_role::leaf);
    fresh.emplace(nullptr);
    if (const auto held = seen.upgrade()) anchor_.root.set(held, fresh.release());
  }

  /// Splits the full nodes on the way to the key, down to its leaf. Returns when the leaf had room.
  void make_room(const Key& key) {
    for (backoff pause; !try_make_room(key);) pause.wait();
  }

  /// The nodes that merge_sparse() unlinks at most. The caller has reserved room for their retirements.
  static constexpr unsigned merged_most = 32;
  /// Merges the sparse nodes on the way to the key with their neighbours, or fills them from these.
  void merge_sparse(guard_type& guard, const Key& key) noexcept {
    unsigned room = merged_most;
    for (backoff pause; room > 0 && !try_merge(guard, key, room);) pause.wait();
  }

  template <class Bound, class Visit>
  void do_scan(guard_type&, const Bound& bound, Visit&& visit) const {
    Bound from = bound;
    std::optional<Key> reached;  // what `from` refers to, after the first leaf
    typename leaf::content found;
    position at = seek_bound(from);
    for (backoff pause; at.leaf.node != nullptr;) {
      found.count = 0;
      at.leaf.as_leaf().copy_to(at.leaf.here, found);
      if (!at.leaf.here.validate()) {
        pause.wait();
        at = seek_bound(from);
        continue;
      }
      for (unsigned i = 0; i < found.count; ++i) {
        const unsigned e = Bound::reverse ? found.count - 1 - i : i;
        if (from.admits(found.key[e]) && !visit(found.key[e], holder::read(found.slot[e]))) return;
      }
      if (!at.fence) return;
      reached = at.fence;
      from =
          Bound::reverse ? Bound::behind(base::key_comp(), *reached) : Bound::at(base::key_comp(), *reached);
      if (!step<Bound>(at)) at = seek_bound(from);
    }
  }

 public:
  // Quiescent only, for tests and inspection.

  /// Calls visitor(address, bytes, role) for every block that the map reaches.
  template <class Visitor>
  void visit_nodes(Visitor&& visitor) const {
    visit_below(root_at_rest(), [&](const auto& n) {
      constexpr bool is_leaf = std::is_same_v<std::remove_cvref_t<decltype(n)>, leaf>;
      visitor(static_cast<const void*>(&n), sizeof(n), role_of<std::remove_cvref_t<decltype(n)>>);
      if constexpr (is_leaf && !holder::in_place) {
        typename leaf::content all;
        n.copy_to(exclusive_access{}, all);
        for (unsigned i = 0; i < all.count; ++i)
          visitor(static_cast<const void*>(all.slot[i]), sizeof(Value), memory_role::value);
      }
    });
  }

  /// What is wrong with the structure, or null.
  [[nodiscard]] const char* check_invariants() const {
    if (anchor_.lock.is_locked()) return "the anchor is locked";
    node_base* const root = root_at_rest();
    return root == nullptr ? nullptr : check_below(*root, nullptr, nullptr);
  }

 protected:
  /// Frees all nodes; for the destructor of the map.
  void destroy_all() noexcept {
    if constexpr (store::template must_visit<leaf>() || store::template must_visit<inner>() ||
                  holder::must_visit())
      visit_below(root_at_rest(), [this]<class Node>(Node& n) {
        if constexpr (std::is_same_v<Node, leaf> && !holder::in_place) {
          typename leaf::content all;
          n.copy_to(exclusive_access{}, all);
          for (unsigned i = 0; i < all.count; ++i) holder::discard(this->store_, all.slot[i]);
        }
        this->store_.destroy(role_of<Node>, &n);
      });
  }

 private:
  using write_guard = optimistic_lock::write_guard;

  template <class Node>
  static constexpr memory_role role_of = std::is_same_v<Node, leaf> ? memory_role::leaf : memory_role::node;

  /// Calls f with the node as what it is.
  template <class F>
  static decltype(auto) as_itself(node_base& n, F&& f) {
    return n.level == 0 ? f(static_cast<leaf&>(n)) : f(static_cast<inner&>(n));
  }

  /// Where the pointer to the root is.
  struct anchor {
    optimistic_lock lock;
    optimistic_field<node_base*> root;
  };

  /// Goes from the root down to a leaf, or to a node where `stop(place)` says so. child_of(node, section) chooses the
  /// child. Nothing if a writer came between.
  template <class ChildOf, class Stop>
  [[nodiscard]] std::optional<place> try_seek(ChildOf&& child_of, Stop&& stop) const {
    section above = anchor_.lock.read();
    node_base* node = anchor_.root.get(above);
    if (!above.validate()) return std::nullopt;
    if (node == nullptr) return place{nullptr, above, 0, nullptr, above};
    inner* parent = nullptr;
    unsigned index = 0;
    section here = node->lock.read();
    while (above.validate()) {
      const place at{parent, above, index, node, here};
      if (node->level == 0 || stop(at)) return at;
      parent = static_cast<inner*>(node);
      index = child_of(*parent, here);
      node = parent->child[index].get(here);
      if (!here.validate()) break;
      above = here;
      here = node->lock.read();
    }
    return std::nullopt;
  }

  /// Chooses the child below which the key lies.
  [[nodiscard]] auto child_of(const Key& key) const {
    return [this, &key](const inner& in, const section& seen) {
      return in.index_of(seen, base::key_comp(), key);
    };
  }

  /// The first node on the way to the key for which `wanted(place)` holds. A node of null if there is none. Nothing if a
  /// writer came between.
  template <class Wanted>
  [[nodiscard]] std::optional<place> first_on_the_way(const Key& key, Wanted wanted) const {
    auto at = try_seek(child_of(key), wanted);
    if (!at || at->node == nullptr) return at;
    const bool found = wanted(*at);
    if (!at->here.validate()) return std::nullopt;
    if (!found) at->node = nullptr;
    return at;
  }

  [[nodiscard]] static bool is_full(const place& at) noexcept {
    return as_itself(*at.node, [&](const auto& n) { return n.is_full(at.here); });
  }

  /// Whether a node is sparse and has a neighbour, or is a root without an entry or with a single child.
  [[nodiscard]] static bool is_mergeable(const place& at) noexcept {
    if (at.parent == nullptr)
      return at.node->level == 0 ? at.as_leaf().count(at.here) == 0
                                 : static_cast<inner*>(at.node)->children.get(at.here) == 1;
    if (at.parent->children.get(at.above) < 2) return false;
    return as_itself(*at.node, [&](const auto& n) { return n.is_sparse(at.here); });
  }

  /// Splits the first full node on the way. True if there was none.
  bool try_make_room(const Key& key) {
    const auto at = first_on_the_way(key, is_full);
    if (!at) return false;
    if (at->node == nullptr) return true;
    as_itself(*at->node, [&](auto& full) { split_below(*at, full); });
    return false;
  }

  template <class Node>
  void split_below(const place& at, Node& full) {
    unpublished<store, Node> fresh(store_, role_of<Node>);
    unpublished<store, inner> root(store_, memory_role::node);
    if constexpr (std::is_same_v<Node, leaf>)
      fresh.emplace(&full);
    else
      fresh.emplace(at.parent, full.level);
    if (at.parent == nullptr) root.emplace(nullptr, full.level + 1U);
    auto above = at.above.upgrade();
    if (!above) return;
    const auto here = at.here.upgrade();
    if (!here) return above.release_unchanged();
    const Key separator = split<Key>(full, here, *fresh.get());
    if (at.parent != nullptr) {
      at.parent->insert(above, at.index, separator, fresh.release());
    } else {
      root.get()->begin_with(&full, separator, fresh.release());
      anchor_.root.set(above, root.release());
    }
  }

  /// Makes one change to the first sparse node on the way. True if there was none that could be changed.
  bool try_merge(guard_type& guard, const Key& key, unsigned& room) noexcept {
    const auto at = first_on_the_way(key, is_mergeable);
    if (!at) return false;
    if (at->node == nullptr) return true;
    as_itself(*at->node, [&](auto& sparse) {
      if (at->parent == nullptr)
        drop_root(guard, *at, sparse, room);
      else
        merge_with_neighbour(guard, *at, sparse, room);
    });
    return false;
  }

  /// Makes the only child of the root the root, or the map empty if the root is an empty leaf.
  template <class Node>
  void drop_root(guard_type& guard, const place& at, Node& root, unsigned& room) noexcept {
    auto above = at.above.upgrade();
    if (!above) return;
    auto here = at.here.upgrade();
    if (!here) return above.release_unchanged();
    node_base* below = nullptr;
    if constexpr (std::is_same_v<Node, inner>) below = root.child[0].get(here);
    anchor_.root.set(above, below);
    here.release_obsolete();
    retire(guard, &root, room);
  }

  /// Merges a sparse node with the one before it, or if it is the first with the one behind it.
  template <class Node>
  void merge_with_neighbour(guard_type& guard, const place& at, Node& sparse, unsigned& room) noexcept {
    const unsigned first = at.index == 0 ? 0 : at.index - 1;
    node_base* const other = at.parent->child[at.index == 0 ? 1 : first].get(at.above);
    if (!at.above.validate()) return;
    const section other_seen = other->lock.read();
    // The lock of the parent keeps others from merging either of the two.
    auto above = at.above.upgrade();
    if (!above) return;
    auto here = at.here.upgrade();
    if (!here) return above.release_unchanged();
    auto there = other_seen.upgrade();
    if (!there) {
      here.release_unchanged();
      return above.release_unchanged();
    }
    Node& left = at.index == 0 ? sparse : *static_cast<Node*>(other);
    Node& right = at.index == 0 ? *static_cast<Node*>(other) : sparse;
    write_guard& right_held = at.index == 0 ? there : here;
    const auto separator = merge_or_even<Key>(left, at.index == 0 ? here : there,
                                              at.parent->key[first].get(above), right, right_held);
    if (separator) return at.parent->key[first].set(above, *separator);
    at.parent->erase_behind(above, first);
    right_held.release_obsolete();
    retire(guard, &right, room);
  }

  /// Retires a node that no longer has any entry or child of its own. `room` counts the retirements that are still
  /// reserved.
  template <class Node>
  void retire(guard_type& guard, Node* n, unsigned& room) noexcept {
    --room;
    store_.template retire<Node, role_of<Node>>(guard, n);
  }

  /// Where a scan stands. A fence is where keys end in the direction of the scan: those of the leaf, and those of its
  /// parent.
  struct position {
    place leaf;
    std::optional<Key> fence;
    std::optional<Key> parent_fence;
  };

  /// The leaf where a scan begins.
  template <class Bound>
  [[nodiscard]] position seek_bound(const Bound& bound) const {
    for (backoff pause;; pause.wait()) {
      std::optional<Key> fence;
      std::optional<Key> parent_fence;
      const auto first_child = [&](const inner& in, const section& seen) {
        const unsigned index = index_of(in, seen, bound);
        parent_fence = fence;
        fence = fence_of<Bound>(in, seen, index, fence);
        return index;
      };
      if (const auto at = try_seek(first_child, [](const place&) { return false; }))
        return {*at, fence, parent_fence};
    }
  }

  /// The child of a node where a scan of the bound begins.
  template <class Bound>
  [[nodiscard]] unsigned index_of(const inner& in, const section& seen, const Bound& bound) const {
    if (!bound.key()) return Bound::reverse ? in.children.get(seen) - 1U : 0;
    if (Bound::reverse && bound.excludes_key()) return in.index_before(seen, base::key_comp(), *bound.key());
    return in.index_of(seen, base::key_comp(), *bound.key());
  }

  /// Where the keys of a child end in the direction of the scan, if those of its parent end at `outer`.
  template <class Bound>
  [[nodiscard]] static std::optional<Key> fence_of(const inner& in, const section& seen, unsigned index,
                                                   const std::optional<Key>& outer) noexcept {
    if constexpr (Bound::reverse)
      return index == 0 ? outer : std::optional(in.key[index - 1].get(seen));
    else
      return index + 1 >= in.children.get(seen) ? outer : std::optional(in.key[index].get(seen));
  }

  /// To the next leaf below the same parent. False if there is none, or a writer came between.
  template <class Bound>
  [[nodiscard]] static bool step(position& at) {
    place& to = at.leaf;
    if (to.parent == nullptr) return false;
    if (Bound::reverse ? to.index == 0 : to.index + 1U >= to.parent->children.get(to.above)) return false;
    to.index += Bound::reverse ? -1U : 1U;
    to.node = to.parent->child[to.index].get(to.above);
    at.fence = fence_of<Bound>(*to.parent, to.above, to.index, at.parent_fence);
    if (!to.above.validate()) return false;
    to.here = to.node->lock.read();
    return to.above.validate();
  }

  [[nodiscard]] node_base* root_at_rest() const noexcept { return anchor_.root.get(exclusive_access{}); }

  /// Children before their parent.
  template <class Visit>
  static void visit_below(node_base* n, const Visit& visit) {
    if (n == nullptr) return;
    as_itself(*n, [&]<class Node>(Node& node) {
      if constexpr (std::is_same_v<Node, inner>) {
        for (unsigned i = 0; i < node.children.get(exclusive_access{}); ++i)
          visit_below(node.child[i].get(exclusive_access{}), visit);
      }
      visit(node);
    });
  }

  /// The keys below n must not be smaller than *low, and must be smaller than *high.
  [[nodiscard]] const char* check_below(node_base& n, const Key* low, const Key* high) const {
    const exclusive_access rest;
    if (n.lock.is_locked()) return "a reachable node is locked";
    if (n.lock.read().obsolete()) return "a reachable node is obsolete";
    if (n.level == 0) {
      typename leaf::content all;
      static_cast<leaf&>(n).copy_to(rest, all);
      for (unsigned i = 0; i < all.count; ++i) {
        if (low != nullptr && base::less(all.key[i], *low)) return "a key lies right of a larger separator";
        if (high != nullptr && !base::less(all.key[i], *high))
          return "a key lies left of a separator not larger";
        if (i > 0 && !base::less(all.key[i - 1], all.key[i])) return "a key follows one not smaller";
      }
      return nullptr;
    }
    const inner& in = static_cast<const inner&>(n);
    const unsigned count = in.children.get(rest);
    if (count < 1 || count > Children) return "an inner node has no children, or too many";
    std::array<Key, Children> separators;
    for (unsigned i = 0; i + 1 < count; ++i) separators[i] = in.key[i].get(rest);
    for (unsigned i = 0; i < count; ++i) {
      node_base& below = *in.child[i].get(rest);
      if (below.level + 1 != n.level) return "a leaf is not as deep as the others";
      if (const char* wrong =
              check_below(below, i == 0 ? low : &separators[i - 1], i + 1 == count ? high : &separators[i]))
        return wrong;
    }
    return nullptr;
  }

  // Readers share its lock with updates, and const maps are read.
  mutable anchor anchor_;
};

}  // namespace espalier::btree
