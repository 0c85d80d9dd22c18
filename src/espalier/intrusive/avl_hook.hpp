#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

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
  static avl_hook* cut(const avl_hook* leaf) noexcept {
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
    avl_hook* const heir = outermost(gone->child_[high], 1 - high);
    lowered at{parent(heir), 1 - high};
    if (at.of == gone) {
      at = {heir, high};
    } else {
      set_child(at.of, 1 - high, heir->child_[high]);
      set_child(heir, high, gone->child_[high]);
    }
    set_child(heir, 1 - high, gone->child_[1 - high]);
    link_to(top, gone) = heir;
    heir->parent_and_balance_ = gone->parent_and_balance_;
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

}  // namespace espalier
