#pragma once

#include <cstdint>

namespace espalier {

/// The op word of a node, in a tree whose nodes carry the operation in progress. It holds a version of the
/// node while there is no operation; a change of the node itself; a relocation, which two nodes share; or the
/// mark, which is for ever. The two low bits of a descriptor's address are free for the kind.
template <class Change, class Relocation>
class node_op_word {
 public:
  node_op_word() noexcept = default;
  explicit node_op_word(Change& c) noexcept : word_(reinterpret_cast<std::uintptr_t>(&c) + changing_kind) {}
  explicit node_op_word(Relocation& r) noexcept
      : word_(reinterpret_cast<std::uintptr_t>(&r) + relocating_kind) {}
  [[nodiscard]] static node_op_word mark(bool entry_moved) noexcept {
    return node_op_word(mark_kind + (entry_moved ? 4U : 0U));
  }

  [[nodiscard]] bool at_rest() const noexcept { return kind() == 0; }
  [[nodiscard]] bool marked() const noexcept { return kind() == mark_kind; }
  /// At rest or changing: the entry stays where it is.
  [[nodiscard]] bool entry_stays() const noexcept { return (word_ & mark_kind) == 0; }
  /// Marked, and the entry is in another node.
  [[nodiscard]] bool entry_moved() const noexcept { return *this == mark(true); }
  // The descriptor, or null if the word holds something else.
  [[nodiscard]] Change* changing() const noexcept {
    return kind() == changing_kind ? reinterpret_cast<Change*>(word_ - changing_kind) : nullptr;  // NOLINT
  }
  [[nodiscard]] Relocation* relocating() const noexcept {
    return kind() == relocating_kind ? reinterpret_cast<Relocation*>(word_ - relocating_kind)  // NOLINT
                                     : nullptr;
  }

  // For a word at rest: the version after it. 62 bits do not wrap.
  [[nodiscard]] std::uintptr_t next_version() const noexcept { return (word_ >> 2U) + 1; }
  [[nodiscard]] node_op_word next() const noexcept { return node_op_word(next_version() << 2U); }

  friend bool operator==(node_op_word, node_op_word) noexcept = default;

 private:
  static constexpr std::uintptr_t mark_kind = 1;
  static constexpr std::uintptr_t changing_kind = 2;
  static constexpr std::uintptr_t relocating_kind = 3;
  [[nodiscard]] std::uintptr_t kind() const noexcept { return word_ & 3U; }

  explicit node_op_word(std::uintptr_t word) noexcept : word_(word) {}
  std::uintptr_t word_ = 0;
};

}  // namespace espalier
