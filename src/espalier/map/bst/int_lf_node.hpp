#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "espalier/hw/cache_line.hpp"
#include "espalier/map/node_layout.hpp"
#include "espalier/map/tagged_ptr.hpp"

// The nodes and descriptors of int_lf.hpp, which says what they mean.

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

/// Cell: the pointer to a value.
template <class Key, class Cell, class Layout>
struct int_lf_nodes {
  struct node;
  struct change;
  struct relocation;

  static constexpr bool compact = Layout::shape == node_shape::compact;

  using op_word = node_op_word<change, relocation>;

  /// Its stamp is a version of the node that has the edge.
  using child_word = stamped_edge<node, 0>;
  using edge = std::atomic<child_word>;
  static_assert(edge::is_always_lock_free && std::atomic<op_word>::is_always_lock_free,
                "this processor has no lock-free atomics of that size");

  // Search fields first: 24 of 40 bytes. The op word follows: a find reads it once, at its end.
  struct compact_fields {
    std::atomic<Key> key;
    std::array<edge, 2> child{};
    std::atomic<op_word> op{};
    std::atomic<Cell> cell;

    compact_fields(const Key& k, Cell c) noexcept : key(k), cell(c) {}
  };

  // One cache line for each node, as in ASCYLIB's implementation, which the study measured.
  struct published_fields {
    std::atomic<Key> key;
    std::atomic<Cell> cell;
    std::atomic<op_word> op{};
    std::array<edge, 2> child{};
    std::array<std::byte, 24> padding;

    published_fields(const Key& k, Cell c) noexcept : key(k), cell(c) {}
  };

  using fields = std::conditional_t<compact, compact_fields, published_fields>;
  struct alignas(Layout::node_align(sizeof(fields), alignof(fields))) node : fields {
    using fields::fields;
  };

  /// A descriptor has at least these bytes; 0: what its fields need.
  static constexpr std::size_t least_descriptor = [] {
    if constexpr (requires { Layout::least_descriptor_bytes; })
      return Layout::least_descriptor_bytes;
    else
      return std::size_t{0};
  }();
  struct no_filler {};
  template <class Fields>
  using filler = std::conditional_t<
      (least_descriptor > sizeof(Fields)),
      std::array<std::byte, std::max(least_descriptor, sizeof(Fields) + 1) - sizeof(Fields)>, no_filler>;

  // Published descriptors fill a line, as published nodes do, and so come from the same size class.
  static constexpr std::size_t descriptor_align =
      compact || least_descriptor != 0 ? alignof(std::uintptr_t) : hw::cache_line_bytes;

  enum class field : std::uint8_t { left, right, cell };

  /// Exchanges one field of the node whose op word holds it. Written before it is published, then constant.
  struct change_fields {
    std::uintptr_t before = 0;
    std::uintptr_t after = 0;
    op_word rest;  // the node's op word afterwards
    field what = field::left;
  };
  struct alignas(descriptor_align) change : change_fields {
    [[no_unique_address]] filler<change_fields> unused;
  };

  enum class decision : std::uint8_t { open, successful, failed };

  struct relocation_terms {
    node* target;
    op_word target_rest;     // what the target's op word must be
    op_word successor_rest;  // what the successor's was
    Key old_key, new_key;    // of the target
    Cell old_cell, new_cell;
  };
  struct relocation_fields : relocation_terms {
    explicit relocation_fields(const relocation_terms& terms) noexcept : relocation_terms(terms) {}
    std::atomic<decision> state{decision::open};
  };
  struct alignas(descriptor_align) relocation : relocation_fields {
    using relocation_fields::relocation_fields;
    [[no_unique_address]] filler<relocation_fields> unused;
  };

  static_assert(sizeof(Key) != 8 || alignof(Key) != 8 ||
                    (offsetof(compact_fields, key) == 0 && offsetof(compact_fields, child) == 8 &&
                     offsetof(compact_fields, op) == 24 && offsetof(compact_fields, cell) == 32 &&
                     sizeof(compact_fields) == 40 && sizeof(published_fields) == 64 &&
                     sizeof(change) == std::max<std::size_t>(compact ? 32 : 64, least_descriptor) &&
                     sizeof(relocation) == std::max<std::size_t>(64, least_descriptor)),
                "the layout of a node, on which the measured figures rest, has changed");

  static constexpr auto members = [] {
    constexpr node_member key{"key", offsetof(fields, key), sizeof(fields::key), search_use::all};
    constexpr node_member child{"child", offsetof(fields, child), sizeof(fields::child), search_use::half};
    constexpr node_member op{"op", offsetof(fields, op), sizeof(fields::op)};
    constexpr node_member cell{"value cell", offsetof(fields, cell), sizeof(fields::cell)};
    if constexpr (compact)
      return std::to_array<node_member>({key, child, op, cell});
    else
      return std::to_array<node_member>(
          {key, cell, op, child, {"padding", offsetof(fields, padding), sizeof(fields::padding)}});
  }();
};

}  // namespace espalier
