#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>

namespace espalier {

/// A pointer and, in the low bits that its alignment leaves free, a few flags. A value type of one word; an edge of a
/// lock-free tree is a std::atomic of it. The algorithm defines what the bits mean.
template <class T, unsigned Bits>
class tagged_ptr {
 public:
  constexpr tagged_ptr() noexcept = default;
  tagged_ptr(T* pointer, std::uintptr_t tags = 0) noexcept  // NOLINT(google-explicit-constructor)
      : word_(reinterpret_cast<std::uintptr_t>(pointer) | tags) {
    static_assert(alignof(T) >= (std::size_t{1} << Bits), "the alignment leaves too few bits");
    assert((reinterpret_cast<std::uintptr_t>(pointer) & mask) == 0 && tags <= mask);
  }

  [[nodiscard]] T* get() const noexcept { return reinterpret_cast<T*>(word_ & ~mask); }  // NOLINT
  [[nodiscard]] std::uintptr_t tags() const noexcept { return word_ & mask; }
  [[nodiscard]] bool has(std::uintptr_t tags) const noexcept { return (word_ & tags) != 0; }
  [[nodiscard]] tagged_ptr with(std::uintptr_t tags) const noexcept { return from_word(word_ | tags); }

  friend bool operator==(tagged_ptr, tagged_ptr) noexcept = default;

  [[nodiscard]] std::uintptr_t word() const noexcept { return word_; }
  [[nodiscard]] static tagged_ptr from_word(std::uintptr_t word) noexcept {
    tagged_ptr p;
    p.word_ = word;
    return p;
  }

 private:
  static constexpr std::uintptr_t mask = (std::uintptr_t{1} << Bits) - 1;
  std::uintptr_t word_ = 0;
};

/// An edge of a tree in which empty edges must not be mistaken for one another. It is a pointer, or null with a stamp,
/// and in both cases has a few flags in the low bits. A compare-exchange that expects an empty edge then succeeds only
/// within the one period in which it was read empty. With a bare null it would also succeed after a node came and went,
/// when other keys may belong there. The top bit says that an edge is null, because no address of a user program has
/// it. A fourth low bit would not do: nodes with an alignment of 8 bytes leave three.
///
/// Stamps need no counter. A thread that links a node to an edge with stamp n gives the node's own empty edges n + 1. A
/// thread that removes the last node below an edge leaves there the larger stamp of that node's edges plus one. Then
/// every stamp below an edge is larger than any that this edge ever had, and no stamp returns to an edge. Helpers that
/// remove the same node all compute the same word.
template <class Node, unsigned Flags>
class stamped_edge {
  static_assert(sizeof(std::uintptr_t) == 8,
                "the layout of a node, on which the measured figures rest, has changed");

 public:
  /// Null, the first stamp.
  constexpr stamped_edge() noexcept = default;
  stamped_edge(Node* node, std::uintptr_t flags = 0) noexcept  // NOLINT(google-explicit-constructor)
      : word_(address(node) | flags) {
    assert(node != nullptr && flags <= flag_mask);
  }

  [[nodiscard]] static stamped_edge null(std::uint64_t stamp) noexcept {
    return stamped_edge(null_bit | stamp << Flags);
  }
  /// Null, with the address of a node in place of the stamp. For an edge that never changes again.
  [[nodiscard]] static stamped_edge null_with(const Node* node, std::uintptr_t flags) noexcept {
    return stamped_edge(null_bit | address(node) | flags);
  }

  [[nodiscard]] bool is_null() const noexcept { return (word_ & null_bit) != 0; }
  [[nodiscard]] Node* get() const noexcept { return is_null() ? nullptr : pointer(word_); }
  /// Of a null without a node.
  [[nodiscard]] std::uint64_t stamp() const noexcept { return (word_ & ~null_bit) >> Flags; }
  /// Of a null with a node.
  [[nodiscard]] Node* null_node() const noexcept { return pointer(word_ & ~null_bit); }

  [[nodiscard]] std::uintptr_t flags() const noexcept { return word_ & flag_mask; }
  [[nodiscard]] bool has(std::uintptr_t flags) const noexcept { return (word_ & flags) != 0; }
  [[nodiscard]] stamped_edge with(std::uintptr_t flags) const noexcept { return stamped_edge(word_ | flags); }

  /// The whole word, for code that keeps edges among other words; and the way back.
  [[nodiscard]] std::uintptr_t word() const noexcept { return word_; }
  [[nodiscard]] static stamped_edge from_word(std::uintptr_t word) noexcept { return stamped_edge(word); }

  friend bool operator==(stamped_edge, stamped_edge) noexcept = default;

 private:
  static constexpr std::uintptr_t null_bit = std::uintptr_t{1} << 63U;
  static constexpr std::uintptr_t flag_mask = (std::uintptr_t{1} << Flags) - 1;

  explicit stamped_edge(std::uintptr_t word) noexcept : word_(word) {}

  static std::uintptr_t address(const Node* node) noexcept {
    static_assert(alignof(Node) >= (std::size_t{1} << Flags), "the alignment leaves too few bits");
    return reinterpret_cast<std::uintptr_t>(node);
  }
  [[nodiscard]] static Node* pointer(std::uintptr_t word) noexcept {
    return reinterpret_cast<Node*>(word & ~flag_mask);  // NOLINT(performance-no-int-to-ptr)
  }

  std::uintptr_t word_ = null_bit;
};

/// The node to which an edge leads, whether the edge is a pointer or a word that holds one.
template <class Node>
[[nodiscard]] Node* to_pointer(Node* edge) noexcept {
  return edge;
}
template <class Word>
[[nodiscard]] auto to_pointer(const Word& edge) noexcept -> decltype(edge.get()) {
  return edge.get();
}

}  // namespace espalier
