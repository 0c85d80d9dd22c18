#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <functional>
#include <type_traits>
#include <utility>

#include "espalier/hw/cache_line.hpp"
#include "espalier/intrusive/avl_hook.hpp"

namespace espalier {

/// An AVL tree of nodes that the caller owns: it allocates nothing and links what it is given. The code is sequential.
/// Concurrent operations need one lock over both, or one transaction each under an elided lock, for which the tree is
/// made.
///
/// The tree of figure 2 of "The Influence of Malloc Placement on TSX Hardware Transactional Memory" (Dice, Harris,
/// Kogan and Lev, section 2), with that paper's two changes: the count of elements is alone in its pair of lines, and
/// each operation updates it last. A transaction that reads the tree then conflicts with a transaction that changes it
/// only where their paths meet. The line that all writers write is in a write set as briefly as possible. The links are
/// in avl_hook.hpp. Deletions relink nodes, so that pointers to other nodes stay valid.
///
/// Node derives from avl_hook and does not move while it is linked. KeyOf is a pointer to a member or another callable
/// value and gives a node's key, which must not change while the node is linked. For any two nodes, the key of one
/// compares less than that of the other.
///
/// find, insert, erase: O(log n), at most 1.44 log2(n + 2) nodes deep. If Compare, KeyOf or `make` throws, the tree is
/// unchanged; nothing else throws. The destructor touches no node.
template <std::derived_from<avl_hook> Node, auto KeyOf, class Compare = std::less<>>
class avl_tree {
 public:
  using key_type = std::remove_cvref_t<std::invoke_result_t<decltype(KeyOf), const Node&>>;

  explicit avl_tree(Compare less = {}) : less_(std::move(less)) {}
  avl_tree(const avl_tree&) = delete;
  avl_tree& operator=(const avl_tree&) = delete;

  /// The node with this key, or null.
  [[nodiscard]] Node* find(const key_type& key) const { return node_of(seek(key).match); }

  /// Returns false if a node with this key is already in the tree; `fresh` then stays unlinked.
  bool insert(Node& fresh) {
    const place at = seek(key_of(fresh));
    if (at.match != nullptr) return false;
    link(at, fresh);
    return true;
  }

  struct insertion {
    Node* node;     ///< with the key; null where `make` returned null
    bool inserted;  ///< true: inserted now; false: found
  };
  /// Finds the node with a key, or inserts the node that make() returns: a Node* to a node with this key. `make` is
  /// called only if no such node exists, and must not touch the tree. If it returns null, nothing is inserted.
  template <std::invocable Make>
  insertion insert_or_find(const key_type& key, Make&& make) {
    const place at = seek(key);
    if (at.match != nullptr) return {node_of(at.match), false};
    Node* const fresh = std::forward<Make>(make)();
    if (fresh == nullptr) return {nullptr, false};
    link(at, *fresh);
    return {fresh, true};
  }

  /// Unlinks the node with this key and returns it to the caller, which frees it. Null if no node has this key.
  Node* erase(const key_type& key) {
    Node* const gone = find(key);
    if (gone != nullptr) erase(*gone);
    return gone;
  }
  /// Unlinks a node that is in this tree.
  void erase(Node& gone) noexcept {
    avl_links::detach(top_, &gone);
    count_last(-1);
  }

  /// Unlinks all nodes and passes each to dispose(Node&), which may destroy it and does not throw. Compares no keys.
  /// O(n).
  template <std::invocable<Node&> Dispose>
  void clear(Dispose&& dispose) noexcept {
    avl_hook* at = std::exchange(top_, nullptr);
    while (at != nullptr) {
      avl_hook* const leaf = leaf_below(at);
      at = avl_links::cut(leaf);
      dispose(static_cast<Node&>(*leaf));
    }
    count_last(-static_cast<std::ptrdiff_t>(size()));
  }

  /// The node with the least key, or null.
  [[nodiscard]] Node* first() const noexcept { return node_of(avl_links::outermost(top_, avl_links::left)); }
  /// The node with the next larger key, or null.
  [[nodiscard]] Node* next(const Node& after) const noexcept {
    return node_of(avl_links::step(&after, avl_links::right));
  }

  /// Reads the line that every insertion and every erasure writes. empty() does not read it.
  [[nodiscard]] std::size_t size() const noexcept { return count_.value; }
  [[nodiscard]] bool empty() const noexcept { return top_ == nullptr; }

  // For tests and inspection.

  /// Calls visit(const Node&, depth) in order of keys; the topmost node is at depth 0. These depths determine the shape
  /// of the tree.
  template <std::invocable<const Node&, std::size_t> Visit>
  void visit_nodes(Visit&& visit) const {
    for (const Node* n = first(); n != nullptr; n = next(*n)) {
      std::size_t depth = 0;
      for (const avl_hook* up = avl_links::parent(n); up != nullptr; up = avl_links::parent(up)) ++depth;
      visit(*n, depth);
    }
  }

  /// A description of the first fault in the structure, or null. O(n).
  [[nodiscard]] const char* check_invariants() const {
    examination found{};
    if (top_ != nullptr && avl_links::parent(top_) != nullptr) return "the topmost node has a parent";
    height_of(top_, nullptr, nullptr, 0, found);
    if (found.wrong != nullptr) return found.wrong;
    return found.nodes == size() ? nullptr : "the count is not that of the nodes";
  }

 private:
  /// The node with a key, or the place where a node with that key would be linked.
  struct place {
    avl_hook* match;
    avl_hook* up;
    std::size_t side;
  };

  [[nodiscard]] static Node* node_of(avl_hook* hook) noexcept { return static_cast<Node*>(hook); }
  [[nodiscard]] static decltype(auto) key_of(const Node& n) { return std::invoke(KeyOf, n); }
  [[nodiscard]] static decltype(auto) key_of(const avl_hook* hook) {
    return key_of(static_cast<const Node&>(*hook));
  }

  [[nodiscard]] place seek(const key_type& key) const {
    place at{top_, nullptr, avl_links::left};
    while (at.match != nullptr) {
      if (less_(key, key_of(at.match))) {
        at.side = avl_links::left;
      } else if (less_(key_of(at.match), key)) {
        at.side = avl_links::right;
      } else {
        return at;
      }
      at.up = at.match;
      at.match = avl_links::child(at.up, at.side);
    }
    return at;
  }

  void link(const place& at, Node& fresh) noexcept {
    avl_links::attach(top_, at.up, at.side, &fresh);
    count_last(1);
  }

  void count_last(std::ptrdiff_t change) noexcept {
    // Keeps the compiler from moving the update up between the writes of the links.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    count_.value += static_cast<std::size_t>(change);
  }

  [[nodiscard]] static avl_hook* leaf_below(avl_hook* at) noexcept {
    while (true) {
      avl_hook* const left = avl_links::child(at, avl_links::left);
      avl_hook* const down = left != nullptr ? left : avl_links::child(at, avl_links::right);
      if (down == nullptr) return at;
      at = down;
    }
  }

  struct examination {
    const char* wrong;
    std::size_t nodes;
  };

  /// The height of a subtree. Its keys must lie between those of two nodes. Meaningful only while no fault is found.
  int height_of(const avl_hook* at, const avl_hook* low, const avl_hook* high, int depth,
                examination& found) const {
    // Bounds the recursion if the links form a cycle.
    constexpr int deepest = 96;
    if (at == nullptr || found.wrong != nullptr) return 0;
    if (depth > deepest || ++found.nodes > size()) {
      found.wrong = "there are more nodes than the count says";
      return 0;
    }
    if (low != nullptr && !less_(key_of(low), key_of(at)))
      found.wrong = "a key lies right of one not smaller";
    if (high != nullptr && !less_(key_of(at), key_of(high)))
      found.wrong = "a key lies left of one not larger";
    for (const std::size_t side : {avl_links::left, avl_links::right}) {
      const avl_hook* const below = avl_links::child(at, side);
      if (below != nullptr && avl_links::parent(below) != at) found.wrong = "a child has another parent";
    }
    const int left = height_of(avl_links::child(at, avl_links::left), low, at, depth + 1, found);
    const int right = height_of(avl_links::child(at, avl_links::right), at, high, depth + 1, found);
    if (found.wrong != nullptr) return 0;
    if (right - left != avl_links::balance(at) || right - left < -1 || right - left > 1)
      found.wrong = "a balance is not the difference of heights, or that is more than one";
    return 1 + (left > right ? left : right);
  }

  // First what searches read; then, on its own lines, the count, which only updates and size() touch.
  alignas(hw::false_sharing_bytes) avl_hook* top_ = nullptr;
  [[no_unique_address]] Compare less_;
  hw::padded<std::size_t> count_;
};

}  // namespace espalier
