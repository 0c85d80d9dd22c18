#pragma once

#include <atomic>
#include <type_traits>
#include <vector>

#include "espalier/map/bst/tree_at_rest.hpp"

// Walks over internal binary search trees at rest (tree_at_rest.hpp): an entry in every node, smaller keys on the left.
//
// Orderings
//   (1) move_key (acq_rel) in map/bst/int_lf.hpp -> key_of (acquire): the caller sees the key that a
//       relocation left. Not needed: at rest, all changes come before the call already.

namespace espalier::internal_tree {

using tree_at_rest::to_pointer;
using tree_at_rest::visit_all;

/// Calls destroy for every node. Allocates nothing: it rotates left children up until there are none. Marks
/// on edges are lost.
template <class Node, class Destroy>
void destroy_all(Node* top, Destroy&& destroy) noexcept {
  while (top != nullptr) {
    if (Node* const left = to_pointer(top->child[0])) {
      using edge_word = std::remove_cvref_t<decltype(top->child[0])>;
      if constexpr (requires { typename edge_word::value_type; }) {
        // relaxed: no other thread uses the tree
        top->child[0].store(left->child[1].load(std::memory_order_relaxed), std::memory_order_relaxed);
        left->child[1].store(typename edge_word::value_type(top), std::memory_order_relaxed);
      } else {
        top->child[0] = left->child[1];
        left->child[1] = edge_word(top);
      }
      top = left;
    } else {
      Node* const right = to_pointer(top->child[1]);
      destroy(top);
      top = right;
    }
  }
}

/// What is wrong with the tree, or null: order, and what check_node finds.
template <class Compare, class Node, class CheckNode>
[[nodiscard]] const char* check(const Compare& less, const Node* top, CheckNode&& check_node) {
  struct open_node {
    const Node* node;
    const Node* low;   // keys below are larger than its key
    const Node* high;  // keys below are smaller than its key
  };
  std::vector<open_node> open;
  if (top != nullptr) open.push_back({top, nullptr, nullptr});
  const auto key_of = [](const Node& n) {
    if constexpr (requires { n.key.load(); })
      return n.key.load(std::memory_order_acquire);  // order (1): key_of, acquire
    else
      return n.key;
  };
  while (!open.empty()) {
    const auto [n, low, high] = open.back();
    open.pop_back();
    if (const char* wrong = check_node(*n)) return wrong;
    if (low != nullptr && !less(key_of(*low), key_of(*n))) return "a key lies right of one not smaller";
    if (high != nullptr && !less(key_of(*n), key_of(*high))) return "a key lies left of one not larger";
    if (const Node* const left = to_pointer(n->child[0])) open.push_back({left, low, n});
    if (const Node* const right = to_pointer(n->child[1])) open.push_back({right, n, high});
  }
  return nullptr;
}

}  // namespace espalier::internal_tree
