#pragma once

#include <array>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <utility>

#include "espalier/hw/cache_line.hpp"

namespace espalier {

/// The base class of a node of avl_tree: its links and its balance. Only the tree writes it. A node that is in no tree
/// may be destroyed or inserted again.
class avl_hook {
 public:
  constexpr avl_hook() noexcept = default;
  avl_hook(const avl_hook&) = delete;
  avl_hook& operator=(const avl_hook&) = delete;

 private:
  friend class avl_links;

  std::array<avl_hook*, 2> child_{};  // left, right
  // The parent's address. Its two low bits hold the height of the right subtree minus that of the left, plus 1.
  std::uintptr_t parent_and_balance_ = 1;
};
static_assert(sizeof(avl_hook) == 24 && alignof(avl_hook) >= 4);

/// The part of an AVL tree that knows no keys: links, rotations, order. All functions are inline, so that a tool that
/// instruments every access of a program sees these accesses too. A tree is the pointer to its topmost hook, whose
/// parent is null.
///
/// Adelson-Velsky and Landis, "An algorithm for the organization of information", Soviet Mathematics Doklady 3, 1962.
class avl_links {
 public:
  static constexpr std::size_t left = 0;
  static constexpr std::size_t right = 1;

  [[nodiscard]] static avl_hook* child(const avl_hook* of, std::size_t side) noexcept {
    return of->child_[side];
  }
  [[nodiscard]] static avl_hook* parent(const avl_hook* of) noexcept {
    return reinterpret_cast<avl_hook*>(of->parent_and_balance_ & ~balance_bits);
  }
  /// The height of the right subtree minus that of the left: -1, 0 or 1.
  [[nodiscard]] static int balance(const avl_hook* of) noexcept {
    return static_cast<int>(of->parent_and_balance_ & balance_bits) - 1;
  }

  /// The first hook in order of the subtree at `from`, or the last where `side` is `right`. Null where `from` is null.
  /// O(log n).
  [[nodiscard]] static avl_hook* outermost(avl_hook* from, std::size_t side) noexcept {
    if (from == nullptr) return nullptr;
    while (from->child_[side] != nullptr) from = from->child_[side];
    return from;
  }

  /// The next hook in order, or the previous one where `side` is `left`. Null at the end. O(log n), O(1) on average
  /// over a walk.
  [[nodiscard]] static avl_hook* step(const avl_hook* from, std::size_t side) noexcept {
    if (from->child_[side] != nullptr) return outermost(from->child_[side], 1 - side);
    avl_hook* up = parent(from);
    while (up != nullptr && up->child_[side] == from) {
      from = up;
      up = parent(up);
    }
    return up;
  }

  /// Links a hook below `up` at a side without a child, or makes it the top where `up` is null. O(log n), one rotation
  /// at most.
  static void attach(avl_hook*& top, avl_hook* up, std::size_t side, avl_hook* fresh) noexcept {
    fresh->child_ = {};
    set(fresh, up, 0);
    if (up == nullptr) {
      top = fresh;
      return;
    }
    up->child_[side] = fresh;
    // The height of the subtree of `up` at `side` has grown by one.
    while (true) {
      const int higher = side == right ? 1 : -1;
      const int before = balance(up);
      if (before == higher) {
        rotate(top, up, side);
        return;
      }
      set_balance(up, before + higher);
      if (before != 0) return;
      const avl_hook* const grown = up;
      up = parent(up);
      if (up == nullptr) return;
      side = side_of(up, grown);
    }
  }

  /// Unlinks a hook. O(log n), at most one rotation per level.
  static void detach(avl_hook*& top, avl_hook* gone) noexcept {
    const lowered at = gone->child_[left] != nullptr && gone->child_[right] != nullptr ? succeed(top, gone)
                                                                                       : bypass(top, gone);
    lower(top, at);
  }

  /// Unlinks a hook without children from a tree that is being dismantled, without rebalancing. Returns its parent.
  /// O(1).
  static avl_hook* unlink_leaf(const avl_hook* leaf) noexcept {
    avl_hook* const up = parent(leaf);
    if (up != nullptr) up->child_[side_of(up, leaf)] = nullptr;
    return up;
  }

 private:
  static constexpr std::uintptr_t balance_bits = 3;

  /// The height of the subtree of `of` at `side` is now one less than `of`'s balance says.
  struct lowered {
    avl_hook* of;  // null: the height of the whole tree
    std::size_t side;
  };

  static void set(avl_hook* of, avl_hook* up, int balance) noexcept {
    of->parent_and_balance_ = reinterpret_cast<std::uintptr_t>(up) | static_cast<std::uintptr_t>(balance + 1);
  }
  static void set_balance(avl_hook* of, int balance) noexcept { set(of, parent(of), balance); }
  static void set_child(avl_hook* of, std::size_t side, avl_hook* to) noexcept {
    of->child_[side] = to;
    if (to != nullptr) set(to, of, balance(to));
  }
  [[nodiscard]] static std::size_t side_of(const avl_hook* up, const avl_hook* of) noexcept {
    return up->child_[right] == of ? right : left;
  }
  /// The link to `of` in its parent.
  [[nodiscard]] static avl_hook*& link_to(avl_hook*& top, const avl_hook* of) noexcept {
    avl_hook* const up = parent(of);
    return up == nullptr ? top : up->child_[side_of(up, of)];
  }

  /// Unlinks a hook with one child or none.
  static lowered bypass(avl_hook*& top, const avl_hook* gone) noexcept {
    avl_hook* const up = parent(gone);
    avl_hook* const only = gone->child_[gone->child_[left] == nullptr ? right : left];
    const lowered at{up, up == nullptr ? left : side_of(up, gone)};
    link_to(top, gone) = only;
    if (only != nullptr) set(only, up, balance(only));
    return at;
  }

  /// Replaces a hook with two children by a neighbour in order. It takes the neighbour in the higher subtree, which
  /// more often leaves the balance unchanged.
  static lowered succeed(avl_hook*& top, avl_hook* gone) noexcept {
    const std::size_t high = balance(gone) > 0 ? right : left;
    avl_hook* const replacement = outermost(gone->child_[high], 1 - high);
    lowered at{parent(replacement), 1 - high};
    if (at.of == gone) {
      at = {replacement, high};
    } else {
      set_child(at.of, 1 - high, replacement->child_[high]);
      set_child(replacement, high, gone->child_[high]);
    }
    set_child(replacement, 1 - high, gone->child_[1 - high]);
    link_to(top, gone) = replacement;
    replacement->parent_and_balance_ = gone->parent_and_balance_;
    return at;
  }

  static void lower(avl_hook*& top, lowered at) noexcept {
    while (at.of != nullptr) {
      const std::size_t other = 1 - at.side;
      const int higher = other == right ? 1 : -1;
      avl_hook* const up = parent(at.of);
      const lowered above{up, up == nullptr ? left : side_of(up, at.of)};
      const int before = balance(at.of);
      if (before == higher) {
        // A top that is not balanced after the rotation is as high as before.
        if (balance(rotate(top, at.of, other)) != 0) return;
      } else {
        set_balance(at.of, before + higher);
        if (before == 0) return;
      }
      at = above;
    }
  }

  /// Rebalances a hook with a subtree at `heavy` that is higher by two. Returns the hook that is now on top.
  static avl_hook* rotate(avl_hook*& top, avl_hook* old, std::size_t heavy) noexcept {
    const std::size_t light = 1 - heavy;
    const int lean = heavy == right ? 1 : -1;
    avl_hook* const up = parent(old);
    avl_hook*& link = link_to(top, old);
    avl_hook* const next = old->child_[heavy];
    if (balance(next) != -lean) {
      const int left_over = balance(next) == 0 ? lean : 0;
      set_child(old, heavy, next->child_[light]);
      next->child_[light] = old;
      set(old, next, left_over);
      set(next, up, -left_over);
      return link = next;
    }
    avl_hook* const inner = next->child_[light];
    const int leant = balance(inner);
    set_child(next, light, inner->child_[heavy]);
    set_child(old, heavy, inner->child_[light]);
    inner->child_[heavy] = next;
    inner->child_[light] = old;
    set(next, inner, leant == -lean ? lean : 0);
    set(old, inner, leant == lean ? -lean : 0);
    set(inner, up, 0);
    return link = inner;
  }
};

/// An AVL tree of nodes that the caller owns: it allocates nothing and links what it is given. The code is sequential.
/// Concurrent operations need one lock over both, or one transaction each under an elided lock, for which the tree is
/// made. Here only the study malloc-tsx uses it. It is a module of its own because any program that elides a lock can.
///
/// The tree of figure 2 of "The Influence of Malloc Placement on TSX Hardware Transactional Memory" (Dice, Harris,
/// Kogan and Lev, section 2), with that paper's two changes: the count of elements is alone in its pair of lines, and
/// each operation updates it last. A transaction that reads the tree then conflicts with a transaction that changes it
/// only where their paths meet. The line that all writers write is in a write set as briefly as possible. The links are
/// those of avl_links. Deletions relink nodes, so that pointers to other nodes stay valid.
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
      at = avl_links::unlink_leaf(leaf);
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
