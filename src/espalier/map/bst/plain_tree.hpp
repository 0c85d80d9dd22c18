#pragma once

#include <cstddef>
#include <type_traits>
#include <vector>

// Walks over internal binary search trees at rest whose edges are plain pointers, because locks guard them.
// A node has a key and child[2], smaller keys on the left. None of it recurses: the depth of an unbalanced
// tree can be its size.

namespace espalier::plain_tree {

/// Calls visit for every node, parents before children.
template <class Node, class Visit>
void visit_all(const Node* top, Visit&& visit) {
  std::vector<const Node*> open;
  if (top != nullptr) open.push_back(top);
  while (!open.empty()) {
    const Node* const n = open.back();
    open.pop_back();
    visit(*n);
    for (const Node* const next : n->child) {
      if (next != nullptr) open.push_back(next);
    }
  }
}

/// Calls destroy for every node. Allocates nothing: it turns left children up until none is left.
template <class Node, class Destroy>
void destroy_all(Node* top, Destroy&& destroy) noexcept {
  while (top != nullptr) {
    if (Node* const left = top->child[0]) {
      top->child[0] = left->child[1];
      left->child[1] = top;
      top = left;
    } else {
      Node* const right = top->child[1];
      destroy(top);
      top = right;
    }
  }
}

/// What is wrong with the tree, or null: order, and what check_node finds.
template <class Compare, class Node, class CheckNode>
[[nodiscard]] const char* check(const Node* top, CheckNode&& check_node) {
  struct open_node {
    const Node* node;
    const Node* low;   // keys below are larger than its key
    const Node* high;  // keys below are smaller than its key
  };
  std::vector<open_node> open;
  if (top != nullptr) open.push_back({top, nullptr, nullptr});
  while (!open.empty()) {
    const auto [n, low, high] = open.back();
    open.pop_back();
    if (const char* wrong = check_node(*n)) return wrong;
    if (low != nullptr && !Compare{}(low->key, n->key)) return "a key lies right of one not smaller";
    if (high != nullptr && !Compare{}(n->key, high->key)) return "a key lies left of one not larger";
    if (n->child[0] != nullptr) open.push_back({n->child[0], low, n});
    if (n->child[1] != nullptr) open.push_back({n->child[1], n, high});
  }
  return nullptr;
}

}  // namespace espalier::plain_tree
