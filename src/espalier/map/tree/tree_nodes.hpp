#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include "espalier/hw/cache_line.hpp"
#include "espalier/map/map_facade.hpp"
#include "espalier/map/scan.hpp"
#include "espalier/map/tree/node.hpp"
#include "espalier/sync/backoff.hpp"
#include "espalier/sync/optimistic_lock.hpp"

// The nodes of a B+tree, and how searches go through them. tree.hpp has the protocol, and tree_changes.hpp splits and merges
// them. None of it knows the map: maps whose nodes are the same share it.
//
// Orderings: those of sync/optimistic_lock.hpp.

namespace espalier::btree {

template <class Fields>
struct alignas(hw::cache_line_bytes) laid_out : Fields {
  using Fields::Fields;
};

template <class Key, class Compare, class Leaf, unsigned Children, class Access>
class tree_nodes {
 public:
  using stored_key = Key;
  using stored_order = Compare;
  using access_type = Access;
  using section = typename Access::section;
  using write_guard = typename Access::guard;
  using leaf = laid_out<Leaf>;
  /// Whether searches for leaves do without validation. Keys are then std::uint64_t, in the order of std::less.
  static constexpr bool guesses = covers_a_range<leaf>;
  using inner = laid_out<inner_node<Key, Children, guesses>>;

  /// A node that a step has reached.
  template <class Section>
  struct basic_place {
    inner* parent;    ///< null where that is the anchor
    Section above;    ///< of the parent
    unsigned index;   ///< of the node in its parent
    node_base* node;  ///< null while the map is empty
    Section here;     ///< of the node, or of the anchor while the map is empty

    [[nodiscard]] leaf& as_leaf() const noexcept { return *static_cast<leaf*>(node); }
  };
  using place = basic_place<section>;

  /// Where the pointer to the root is.
  struct anchor {
    optimistic_lock lock;
    optimistic_field<node_base*> root;
  };

  /// A node whose entries or children go elsewhere. Its guard is empty if a writer came between.
  template <class Node>
  struct held_node {
    held_node() = default;
    held_node(Node& n, const section& seen) noexcept : guard(seen.upgrade()) {
      if constexpr (has_placement<Node>) {
        if (guard) shown = n.placement.change();
      }
    }
    [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(guard); }
    void release_unchanged() noexcept {
      shown.release_unchanged();
      guard.release_unchanged();
    }
    void release_obsolete() noexcept {
      shown.release_obsolete();
      guard.release_obsolete();
    }

    write_guard guard;
    [[no_unique_address]] std::conditional_t<has_placement<Node>, optimistic_version::write_guard,
                                             exclusive_access> shown;
  };

  /// A node and its parent, both or none.
  template <class Node>
  struct held_place {
    held_place(const place& at, Node& n) noexcept
        : above(at.above.upgrade()), here(above ? held_node<Node>(n, at.here) : held_node<Node>()) {
      if (above && !here) above.release_unchanged();
    }
    [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(here); }

    write_guard above;
    held_node<Node> here;
  };

  tree_nodes() = default;
  tree_nodes(const tree_nodes&) = delete;
  tree_nodes& operator=(const tree_nodes&) = delete;
  ~tree_nodes() = default;

  /// Both maps are at rest.
  void swap_with(tree_nodes& other) noexcept {
    const exclusive_access rest;
    node_base* const root = root_at_rest();
    anchor_.root.set(rest, other.root_at_rest());
    other.anchor_.root.set(rest, root);
  }
  [[nodiscard]] node_base* root_at_rest() const noexcept { return anchor_.root.get(exclusive_access{}); }

  /// Whether an erase that left so many entries in a leaf is followed by a merge. Not each one: nodes may have stayed sparse.
  [[nodiscard]] static constexpr bool leaves_little(unsigned left) noexcept {
    return left == leaf::sparse || left == 0;
  }

  /// Runs a step until it has a result.
  template <class Step>
  [[gnu::always_inline]] auto run(Step&& step) const {
    for (backoff pause;; pause.wait()) {
      if (auto result = access_.once(step)) [[likely]]
        return *result;
    }
  }

  /// The leaf that covers the key, if no change of the tree comes between; null while the map is empty. For leaves that
  /// know which keys they cover: the way to them is not validated. The caller is pinned, so what it comes to is a node.
  [[nodiscard, gnu::always_inline]] leaf* guess_leaf(const Key key) const noexcept {
    node_base* node = anchor_.root.get(unvalidated{});
    if (node == nullptr) return nullptr;
    const unsigned height = node->level;
    const hw::vector_width width = inner::key_width();
    return hw::with_constant(width, [&](auto known) __attribute__((always_inline)) {
      for (unsigned level = height; level != 0; --level) node = guess_child(*node, key, known);
      return static_cast<leaf*>(node);
    });
  }
  /// The same for each of the keys, of which there are together_most at most. The searches take each step together, so that their misses overlap.
  void guess_leaves(std::span<const Key> keys, std::span<leaf*> leaves) const noexcept {
    node_base* const root = anchor_.root.get(unvalidated{});
    const hw::vector_width width = inner::key_width();
    std::array<node_base*, together_most> nodes;
    for (std::size_t i = 0; i < keys.size(); ++i) nodes[i] = root;
    for (unsigned level = root != nullptr ? root->level : 0; level != 0; --level) {
      for (std::size_t i = 0; i < keys.size(); ++i) {
        nodes[i] = guess_child(*nodes[i], keys[i], width);
        if (level == 1)
          leaf::request(nodes[i], keys[i]);
        else
          static_cast<inner*>(nodes[i])->request();
      }
    }
    for (std::size_t i = 0; i < keys.size(); ++i) leaves[i] = static_cast<leaf*>(nodes[i]);
  }

  /// The child of an inner node on the way to the key, if no change of the node comes between.
  [[nodiscard, gnu::always_inline]] node_base* guess_child(const node_base& parent, const Key& key,
                                                           hw::vector_width width) const noexcept {
    const inner& in = static_cast<const inner&>(parent);
    if (key == in.key.none) [[unlikely]]
      return in.child[in.children.get(unvalidated{}) - 1U].get(unvalidated{});
    return in.guess_child(key, width);
  }

  /// Goes from the root down to a leaf, or to a node where `stop(place)` says so. child_of(node, section) chooses the
  /// child. Nothing if a writer came between.
  /// Inlined: a place then stays in registers.
  template <class How, class ChildOf, class Stop>
  [[nodiscard, gnu::always_inline]] std::optional<basic_place<typename How::section>> try_seek(
      ChildOf&& child_of, Stop&& stop) const {
    using reached_place = basic_place<typename How::section>;
    auto above = How::read(anchor_.lock);
    node_base* node = anchor_.root.get(above);
    if (!above.validate()) return std::nullopt;
    if (node == nullptr) return reached_place{nullptr, above, 0, nullptr, above};
    inner* parent = nullptr;
    unsigned index = 0;
    auto here = How::read(node->lock);
    while (above.validate()) {
      const reached_place at{parent, above, index, node, here};
      if (node->level == 0 || stop(at)) return at;
      parent = static_cast<inner*>(node);
      index = child_of(*parent, here);
      node = parent->child[index].get(here);
      request_child(child_of, *parent, node);
      if (!here.validate()) break;
      above = here;
      here = How::read(node->lock);
    }
    return std::nullopt;
  }

  /// Chooses the child below which the key lies.
  struct child_of_key {
    [[no_unique_address]] comparator_in_use<Compare> less;
    const Key& key;
    template <class Section>
    [[nodiscard]] unsigned operator()(const inner& in, const Section& seen) const {
      return in.index_of(seen, less, key);
    }
  };

  /// Requests what a search reads next.
  template <class ChildOf>
  static void request_child(const ChildOf& child_of, const inner& parent, const node_base* child) noexcept {
    if constexpr (requires { leaf::request(child, child_of.key); }) {
      if (parent.level == 1) return leaf::request(child, child_of.key);
    }
    if constexpr (guesses) {
      if (parent.level != 1) return static_cast<const inner*>(child)->request();
    }
    prefetch(child);
  }

  /// Calls f with the node as what it is.
  template <class F>
  static decltype(auto) as_itself(node_base& n, F&& f) {
    return n.level == 0 ? f(static_cast<leaf&>(n)) : f(static_cast<inner&>(n));
  }

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

 protected:
  template <class, class, class>
  friend class tree_changes;
  // The threads share its lock, and const maps are read.
  [[no_unique_address]] mutable Access access_;
  // Readers share its lock with updates, and const maps are read.
  mutable anchor anchor_;

 private:
  /// Requests all lines of a node at once. A search that requests them one by one waits for each.
  static void prefetch(const node_base* node) noexcept {
    hw::request_lines(node, std::min(sizeof(inner), sizeof(leaf)));
  }
};

}  // namespace espalier::btree
