#pragma once

#include <atomic>
#include <type_traits>
#include <vector>

#include "espalier/map/tagged_ptr.hpp"

// Walks over search trees at rest: an internal tree has an entry in every node, smaller keys on the left; an external
// tree has them in its leaves, and its routers have two children. A node has a key and child[2]. Edges may be pointers,
// words that hold one (with a member get()), or atomics of either. No walk recurses: the depth of an unbalanced tree
// can be its size.
//
// Orderings
//   (1) publish (release) in map/bst/edge_ext_lf.hpp -> to_pointer (acquire): a node is seen constructed; likewise
//       after the publishing stores of the other trees. More than needed at rest.
//   (2) move_key (acq_rel) in map/bst/int_lf.hpp -> key_of (acquire): the caller sees the key that a
//       relocation left. Not needed: at rest, all changes come before the call already.
//   (3) publish, swing (release) in map/bst/edge_ext_lf.hpp, link, unlink (release) in map/bst/ticket.hpp, swing
//       (release) in map/bst/ext_lf.hpp -> check (acquire): a node is seen constructed. More than needed at rest.

namespace espalier::tree_at_rest {

using espalier::to_pointer;

template <class Edge>
[[nodiscard]] auto to_pointer(const std::atomic<Edge>& edge) noexcept {
  return espalier::to_pointer(edge.load(std::memory_order_acquire));  // order (1): to_pointer, acquire
}

/// What has a node's key and edges.
template <class Node>
[[nodiscard]] auto& fields_of(Node& n) noexcept {
  if constexpr (requires { n.fields(); })
    return n.fields();
  else
    return n;
}

/// Calls visit for every node, parents before children.
template <class Node, class Visit>
void visit_all(const Node* top, Visit&& visit) {
  std::vector<const Node*> open;
  if (top != nullptr) open.push_back(top);
  while (!open.empty()) {
    const Node* const n = open.back();
    open.pop_back();
    visit(*n);
    for (const auto& edge : fields_of(*n).child) {
      if (const Node* const next = to_pointer(edge)) open.push_back(next);
    }
  }
}

/// Calls destroy for every node of an internal tree. Allocates nothing: it rotates left children up until there are none. Marks
/// on edges are lost.
template <class Node, class Destroy>
void destroy_internal(Node* top, Destroy&& destroy) noexcept {
  while (top != nullptr) {
    auto& edges = fields_of(*top).child;
    if (Node* const left = to_pointer(edges[0])) {
      auto& edges_of_left = fields_of(*left).child;
      using edge_word = std::remove_cvref_t<decltype(edges[0])>;
      if constexpr (requires { typename edge_word::value_type; }) {
        // relaxed: no other thread uses the tree
        edges[0].store(edges_of_left[1].load(std::memory_order_relaxed), std::memory_order_relaxed);
        edges_of_left[1].store(typename edge_word::value_type(top), std::memory_order_relaxed);
      } else {
        edges[0] = edges_of_left[1];
        edges_of_left[1] = edge_word(top);
      }
      top = left;
    } else {
      Node* const right = to_pointer(edges[1]);
      destroy(top);
      top = right;
    }
  }
}

/// Calls destroy for every node of an external tree. Allocates nothing: it rotates left children up until none is left.
template <class Node, class Destroy>
void destroy_external(Node* top, Destroy&& destroy) noexcept {
  using edge_word = typename decltype(Node::child)::value_type::value_type;
  // relaxed throughout: the tree is at rest.
  while (top != nullptr) {
    Node* const left = to_pointer(top->child[0].load(std::memory_order_relaxed));
    Node* const right = to_pointer(top->child[1].load(std::memory_order_relaxed));
    if (left == nullptr) {
      destroy(top);
      return;
    }
    if (left->is_leaf()) {
      destroy(left);
      destroy(top);
      top = right;
    } else {
      top->child[0].store(left->child[1].load(std::memory_order_relaxed), std::memory_order_relaxed);
      left->child[1].store(edge_word(top), std::memory_order_relaxed);
      top = left;
    }
  }
}

/// What is wrong with an internal tree, or null: order, and what check_node finds.
template <class Compare, class Node, class CheckNode>
[[nodiscard]] const char* check_internal(const Compare& less, const Node* top, CheckNode&& check_node) {
  struct open_node {
    const Node* node;
    const Node* low;   // keys below are larger than its key
    const Node* high;  // keys below are smaller than its key
  };
  std::vector<open_node> open;
  if (top != nullptr) open.push_back({top, nullptr, nullptr});
  const auto key_of = [](const Node& n) {
    const auto& key = fields_of(n).key;
    if constexpr (requires { key.load(); })
      return key.load(std::memory_order_acquire);  // order (2): key_of, acquire
    else
      return key;
  };
  while (!open.empty()) {
    const auto [n, low, high] = open.back();
    open.pop_back();
    if (const char* wrong = check_node(*n)) return wrong;
    if (low != nullptr && !less(key_of(*low), key_of(*n))) return "a key lies right of one not smaller";
    if (high != nullptr && !less(key_of(*n), key_of(*high))) return "a key lies left of one not larger";
    if (const Node* const left = to_pointer(fields_of(*n).child[0])) open.push_back({left, low, n});
    if (const Node* const right = to_pointer(fields_of(*n).child[1])) open.push_back({right, n, high});
  }
  return nullptr;
}

/// What is wrong with an external tree below an edge, or null: order, shape, and what check_edge finds.
template <class Compare, class EdgeWord, class CheckEdge>
[[nodiscard]] const char* check_external(const Compare& less, EdgeWord top, CheckEdge&& check_edge) {
  using node = std::remove_cvref_t<decltype(*to_pointer(top))>;
  struct open_edge {
    EdgeWord word;
    const node* low;   // keys below are not smaller than its key
    const node* high;  // keys below are smaller than its key
  };
  std::vector<open_edge> open;
  if (to_pointer(top) != nullptr) open.push_back({top, nullptr, nullptr});
  while (!open.empty()) {
    const open_edge e = open.back();
    open.pop_back();
    if (const char* wrong = check_edge(e.word)) return wrong;
    const node* const n = to_pointer(e.word);
    if (e.low != nullptr && less(n->key, e.low->key)) return "a key lies right of a larger router";
    if (e.high != nullptr && !less(n->key, e.high->key)) return "a key lies left of a router not larger";
    // order (3): check, acquire
    const EdgeWord left = n->child[0].load(std::memory_order_acquire);
    const EdgeWord right = n->child[1].load(std::memory_order_acquire);
    if ((to_pointer(left) == nullptr) != (to_pointer(right) == nullptr)) return "a router has one child";
    if (to_pointer(left) == nullptr) continue;
    open.push_back({left, e.low, n});
    open.push_back({right, n, e.high});
  }
  return nullptr;
}

}  // namespace espalier::tree_at_rest
