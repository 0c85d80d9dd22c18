#pragma once

#include <atomic>
#include <vector>

// What walks over search trees at rest share. Edges may be pointers, words that hold one (with a member get()), or
// atomics of either. A node has a key and child[2]. No walk recurses: the depth of an unbalanced tree can be its size.
//
// Orderings
//   (1) publish (release) in map/bst/edge_ext_lf.hpp -> to_pointer (acquire): a node is seen constructed; likewise
//       after the publishing stores of the other trees. More than needed at rest.

namespace espalier::tree_at_rest {

template <class Node>
[[nodiscard]] Node* to_pointer(Node* edge) noexcept {
  return edge;
}
template <class Edge>
[[nodiscard]] auto to_pointer(const Edge& edge) noexcept -> decltype(edge.get()) {
  return edge.get();
}
template <class Edge>
[[nodiscard]] auto to_pointer(const std::atomic<Edge>& edge) noexcept {
  return to_pointer(edge.load(std::memory_order_acquire));  // order (1): to_pointer, acquire
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
    for (const auto& edge : n->child) {
      if (const Node* const next = to_pointer(edge)) open.push_back(next);
    }
  }
}

}  // namespace espalier::tree_at_rest
