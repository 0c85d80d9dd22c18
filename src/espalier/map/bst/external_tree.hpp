#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "espalier/map/bst/tree_at_rest.hpp"
#include "espalier/map/scan.hpp"

// What external binary search trees share apart from synchronisation: the ordered scan, and the walks over a tree at
// rest. A node has a key and child[2]. A leaf's children are null, an internal node's are not. Keys smaller than an
// internal node's lie on its left.
//
// Orderings
//   (1) publish, swing (release) in map/bst/edge_ext_lf.hpp, link, unlink (release) in map/bst/ticket.hpp, swing
//       (release) in map/bst/ext_lf.hpp -> check (acquire): a node is seen constructed. More than needed at rest.

namespace espalier::external_tree {

using tree_at_rest::to_pointer;
using tree_at_rest::visit_all;

/// Visits the leaves that the bound admits in increasing order until visit(leaf) returns false. Allocates nothing.
///
/// It keeps the last few nodes at which it turned left, because their right sides are still to be visited. Where these
/// run out, it starts again from the root and resumes by key. It requires of the tree that a node, once reached, leads
/// to every key that was below it and stays present, even if the node is detached meanwhile; and that keys never move
/// between leaves. A key that is present throughout is then found once: it lies below one of the kept nodes, or beyond
/// them all. The comparison with the last key visited keeps the order strict if a kept node has been detached and its
/// former range has new keys.
template <class Key, class Compare, class Root, class Child, class Visit>
void scan(const Compare& less, scan_bound<Key, Compare> bound, Root&& root, Child&& child, Visit&& visit) {
  using node = std::remove_cvref_t<decltype(*root())>;
  constexpr std::size_t kept_most = 64;
  std::array<const node*, kept_most> kept;  // a ring: the oldest is lost first
  std::optional<Key> last;
  while (true) {
    std::size_t turns = 0;  // kept at index (turns - 1) % kept_most and before
    std::size_t lost = 0;
    const node* n = root();
    bool by_key = true;  // after the first leaf, always leftmost
    while (n != nullptr) {
      while (true) {
        const std::size_t side = by_key && !bound.admits_below(n->key) ? 1 : 0;
        const node* const next = child(*n, side);
        if (next == nullptr) break;
        if (side == 0) {
          kept[turns++ % kept_most] = n;
          if (turns - lost > kept_most) ++lost;
        }
        n = next;
      }
      if (bound.admits(n->key)) {
        last = n->key;
        bound = scan_bound<Key, Compare>::behind(less, *last);
        if (!visit(*n)) return;
      }
      by_key = false;
      n = turns > lost ? child(*kept[--turns % kept_most], 1) : nullptr;
    }
    if (lost == 0) return;
  }
}

// The rest needs a tree at rest (tree_at_rest.hpp).

/// Calls destroy for every node. Allocates nothing: it rotates left children up until none is left.
template <class Node, class Destroy>
void destroy_all(Node* top, Destroy&& destroy) noexcept {
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

/// What is wrong with the tree below an edge, or null: order, shape, and what check_edge finds.
template <class Compare, class EdgeWord, class CheckEdge>
[[nodiscard]] const char* check(const Compare& less, EdgeWord top, CheckEdge&& check_edge) {
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
    // order (1): check, acquire
    const EdgeWord left = n->child[0].load(std::memory_order_acquire);
    const EdgeWord right = n->child[1].load(std::memory_order_acquire);
    if ((to_pointer(left) == nullptr) != (to_pointer(right) == nullptr)) return "a router has one child";
    if (to_pointer(left) == nullptr) continue;
    open.push_back({left, e.low, n});
    open.push_back({right, n, e.high});
  }
  return nullptr;
}

}  // namespace espalier::external_tree
