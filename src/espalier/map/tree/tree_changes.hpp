#pragma once

#include <optional>
#include <type_traits>

#include "espalier/map/node_store.hpp"
#include "espalier/map/scan.hpp"
#include "espalier/map/tree/node.hpp"
#include "espalier/map/tree/tree_nodes.hpp"
#include "espalier/sync/backoff.hpp"
#include "espalier/sync/optimistic_lock.hpp"

// The changes of a B+tree's nodes, as tree.hpp describes them: splits, merges, and how a tree gets and loses its root. They
// are rare. So the functions that operations call are not inline, and programs do not compile them again for maps whose
// nodes the library has (hashed_nodes.hpp).
//
// Orderings: those of sync/optimistic_lock.hpp.

namespace espalier::btree {

/// The nodes that the merges of one erase unlink at most.
inline constexpr unsigned merged_most = 32;

/// An object for one operation. Self has make_root(guard, key, place) for a tree without a root.
template <class Self, class Store, class Nodes>
class tree_changes {
 public:
  using guard_type = typename Store::guard_type;
  using key_type = typename Nodes::stored_key;
  using order_type = typename Nodes::stored_order;

  tree_changes(Store& store, Nodes& nodes, const order_type& order) noexcept
      : store_(store), nodes_(nodes), order_(order) {}

  /// Splits the full nodes on the way to the key, down to its leaf. Returns when the leaf had room.
  void make_room(guard_type& guard, const key_type& key);

  /// Merges the sparse nodes on the way to the key with their neighbours, or fills them from these. Reserves room for its
  /// own retirements and for `more`, which come later. Without memory for that, or if the comparator throws, the nodes stay
  /// as they are.
  void merge_sparse(guard_type& guard, const key_type& key, unsigned more) noexcept;

  /// Frees a node that no thread can reach, with what is attached to it.
  template <class Node>
  static void destroy(Store& from, Node* n) noexcept {
    if constexpr (requires { n->attachment(); }) {
      if (auto* const more = n->attachment()) from.destroy(memory_role::descriptor, more);
    }
    from.destroy(role_of<Node>, n);
  }

 protected:
  using access = typename Nodes::access_type;
  using section = typename Nodes::section;
  using leaf = typename Nodes::leaf;
  using inner = typename Nodes::inner;
  using place = typename Nodes::place;
  using anchor = typename Nodes::anchor;
  template <class Node>
  using held_node = typename Nodes::template held_node<Node>;
  template <class Node>
  using held_place = typename Nodes::template held_place<Node>;
  static constexpr bool guesses = Nodes::guesses;

  ~tree_changes() = default;

  [[nodiscard]] const order_type& order() const noexcept { return order_; }
  [[nodiscard]] static constexpr decltype(auto) as_itself(node_base& n, auto&& f) {
    return Nodes::as_itself(n, f);
  }

  /// In a step of its own: the full node that an earlier step has found, if it is still there.
  [[nodiscard]] std::optional<place> return_to(const place& at, const key_type& key) const {
    if constexpr (access::steps_connect) return at;
    const auto again = first_on_the_way(key, is_full);
    if (!again || !again->is_wanted || again->node != at.node || again->parent != at.parent)
      return std::nullopt;
    return *again;
  }

  Store& store_;
  Nodes& nodes_;
  access& access_ = nodes_.access_;
  anchor& anchor_ = nodes_.anchor_;

 private:
  template <class Node>
  static constexpr memory_role role_of = std::is_same_v<Node, leaf> ? memory_role::leaf : memory_role::node;

  [[nodiscard]] auto child_of(const key_type& key) const {
    return typename Nodes::child_of_key{order(), key};
  }

  template <class Node>
  void retire(guard_type& guard, Node& n) noexcept {
    store_.retire_by(
        guard, &n, nullptr,
        [](const retired& entry) noexcept {
          destroy(*static_cast<Store*>(entry.owner), static_cast<Node*>(entry.object));
        },
        sizeof(Node));
  }

  /// The first node on the way to the key that is `wanted`, if one is.
  struct sought : place {
    bool is_wanted;
  };
  template <class Wanted>
  [[nodiscard]] std::optional<sought> first_on_the_way(const key_type& key, Wanted wanted) const {
    const auto at = nodes_.template try_seek<access>(child_of(key), wanted);
    if (!at) return std::nullopt;
    const bool found = wanted(*at);
    if (!at->here.validate()) return std::nullopt;
    return sought{*at, found};
  }

  /// Whether a node has no room for another entry or child. Nor has an empty map.
  [[nodiscard]] static bool is_full(const place& at) noexcept {
    return at.node == nullptr || as_itself(*at.node, [&](const auto& n) { return n.is_full(at.here); });
  }

  /// Whether a node is sparse and has a neighbour, or is a root with a single child.
  [[nodiscard]] static bool is_mergeable(const place& at) noexcept {
    if (at.node == nullptr) return false;
    if (at.parent == nullptr)
      return at.node->level != 0 && static_cast<inner*>(at.node)->children.get(at.here) == 1;
    if (at.parent->children.get(at.above) < 2) return false;
    return as_itself(*at.node, [&](const auto& n) { return n.is_sparse(at.here); });
  }

  /// Splits the first full node on the way, or lets a neighbour have some of its entries. True if there was none.
  bool try_make_room(guard_type& guard, const key_type& key) {
    const std::optional<sought> at =
        access_.once([&]() noexcept(access::repeats_steps) { return first_on_the_way(key, is_full); });
    if (!at) return false;
    if (!at->is_wanted) return true;
    if (at->node == nullptr) return static_cast<Self&>(*this).make_root(guard, key, *at);
    as_itself(*at->node, [&]<class Node>(Node& full) {
      if constexpr (requires { Node::request_all(&full); }) Node::request_all(&full);
      if (const auto other = neighbour_with_room<Node>(*at))
        merge_or_even_with(*at, full, *other);
      else
        split_below<Node>(key, *at);
    });
    return false;
  }

  /// The neighbour that a full node shares its entries with instead of being split, by its index: the one that has fewer.
  /// As hints: a place in which a writer came between does not validate.
  template <class Node>
  [[nodiscard]] static std::optional<unsigned> neighbour_with_room(
      [[maybe_unused]] const place& at) noexcept {
    std::optional<unsigned> found;
    if constexpr (guesses) {
      if (at.parent == nullptr) return found;
      const unsigned children = at.parent->children.get(at.above);
      unsigned fewest = Node::few_for_a_neighbour + 1;
      for (const unsigned i : {at.index - 1, at.index + 1}) {
        if (i >= children) continue;
        const auto& other = *static_cast<const Node*>(at.parent->child[i].get(at.above));
        if (!at.above.validate()) return std::nullopt;
        if (const unsigned count = other.count(unvalidated{}); count < fewest) {
          fewest = count;
          found = i;
        }
      }
    }
    return found;
  }

  template <class Node>
  void split_below(const key_type& key, const place& found) {
    unpublished<Store, Node> fresh(store_, role_of<Node>);
    unpublished<Store, inner> root(store_, memory_role::node);
    const auto level = found.node->level;
    if constexpr (std::is_same_v<Node, leaf>)
      fresh.emplace(found.node);
    else
      fresh.emplace(found.parent, level);
    if (found.parent == nullptr) root.emplace(nullptr, level + 1U);
    const bool done = access_.once([&]() noexcept(access::repeats_steps) {
      const auto at = return_to(found, key);
      return at && try_split(*at, *static_cast<Node*>(at->node), *fresh.get(), root.get(), key);
    });
    if (!done) return;
    fresh.release();
    root.release();
  }

  /// `root` is the new root if the node is the root, else null.
  template <class Node>
  bool try_split(const place& at, Node& full, Node& fresh, inner* root, const key_type& key) {
    const held_place<Node> held(at, full);
    if (!held) return false;
    const auto& above = held.above;
    const auto& here = held.here.guard;
    // Transactions change a leaf without a new version.
    if (!full.is_full(here)) return false;
    const key_type separator = split<key_type>(full, here, order(), fresh, key);
    if (at.parent != nullptr) {
      at.parent->insert(above, at.index, separator, &fresh);
    } else {
      root->begin_with(&full, separator, &fresh);
      anchor_.root.set(above, root);
    }
    return true;
  }

  /// What one step of merge_sparse() has done.
  struct merge_step {
    bool settled = false;  ///< there was nothing left to merge
    node_base* unlinked = nullptr;
  };

  /// Makes one change to the first sparse node on the way.
  merge_step try_merge(const key_type& key) {
    const auto at = first_on_the_way(key, is_mergeable);
    if (!at) return {};
    if (!at->is_wanted) return {.settled = true};
    if (at->parent == nullptr) return {.unlinked = drop_root(*at, *static_cast<inner*>(at->node))};
    return {.unlinked = as_itself(*at->node, [&](auto& sparse) {
              return merge_or_even_with(*at, sparse, at->index == 0 ? 1 : at->index - 1);
            })};
  }

  /// Makes the only child of the root the root. Returns the former root, or null if a writer came between.
  node_base* drop_root(const place& at, inner& root) noexcept {
    held_place<inner> held(at, root);
    if (!held) return nullptr;
    anchor_.root.set(held.above, root.child[0].get(held.here.guard));
    held.here.release_obsolete();
    return &root;
  }

  /// Merges a node with a neighbour, or lets both have the half of their entries: merge_or_even(). Returns the node that it
  /// has unlinked, or null.
  template <class Node>
  node_base* merge_or_even_with(const place& at, Node& node, unsigned neighbour) noexcept {
    const bool is_left = at.index < neighbour;
    const unsigned first = is_left ? at.index : neighbour;
    node_base* const other = at.parent->child[neighbour].get(at.above);
    if (!at.above.validate()) return nullptr;
    const section other_seen = access::read(other->lock);
    // The lock of the parent keeps others from merging either of the two.
    held_place<Node> held(at, node);
    if (!held) return nullptr;
    auto& [above, here] = held;
    held_node<Node> there(*static_cast<Node*>(other), other_seen);
    if (!there) {
      here.release_unchanged();
      above.release_unchanged();
      return nullptr;
    }
    Node& left = is_left ? node : *static_cast<Node*>(other);
    Node& right = is_left ? *static_cast<Node*>(other) : node;
    held_node<Node>& right_held = is_left ? there : here;
    const auto separator =
        merge_or_even<key_type>(left, (is_left ? here : there).guard, at.parent->key.get(above, first), right,
                                right_held.guard, order());
    if (separator) {
      at.parent->key.set(above, first, *separator);
      return nullptr;
    }
    at.parent->erase_behind(above, first);
    right_held.release_obsolete();
    return &right;
  }

  [[no_unique_address]] comparator_in_use<order_type> order_;
};

template <class Self, class Store, class Nodes>
void tree_changes<Self, Store, Nodes>::make_room(guard_type& guard, const key_type& key) {
  for (backoff pause; !try_make_room(guard, key);) pause.wait();
}

template <class Self, class Store, class Nodes>
void tree_changes<Self, Store, Nodes>::merge_sparse(guard_type& guard, const key_type& key,
                                                    unsigned more) noexcept {
  // A hint: without neighbours there is nothing to merge, and nothing to reserve for.
  if (const node_base* const root = anchor_.root.get(unvalidated{}); root == nullptr || root->level == 0)
    return;
  try {
    guard.reserve(merged_most + more);
    unsigned room = merged_most;
    for (backoff pause; room > 0; pause.wait()) {
      const merge_step done = access_.once([&]() noexcept(access::repeats_steps) { return try_merge(key); });
      if (done.settled) return;
      if (done.unlinked == nullptr) continue;
      --room;
      as_itself(*done.unlinked, [&](auto& n) { retire(guard, n); });
    }
  } catch (...) {
    // The nodes stay as they are.
  }
}

/// Of a tree whose first leaf is its root.
template <class Store, class Nodes>
class plain_changes : public tree_changes<plain_changes<Store, Nodes>, Store, Nodes> {
  using base = tree_changes<plain_changes, Store, Nodes>;
  friend base;
  using base::access_;
  using base::anchor_;
  using base::return_to;
  using base::store_;
  using typename base::access;
  using typename base::guard_type;
  using typename base::key_type;
  using typename base::leaf;
  using typename base::place;

 public:
  using base::base;

 private:
  /// The first leaf of an empty map. False if a writer came between.
  bool make_root(guard_type&, const key_type& key, const place& found) {
    unpublished<Store, leaf> fresh(store_, memory_role::leaf);
    fresh.emplace(nullptr);
    const bool done = access_.once([&]() noexcept(access::repeats_steps) {
      const auto at = return_to(found, key);
      if (!at) return false;
      const auto held = at->here.upgrade();
      if (held) anchor_.root.set(held, fresh.get());
      return static_cast<bool>(held);
    });
    if (done) fresh.release();
    return done;
  }
};

}  // namespace espalier::btree
