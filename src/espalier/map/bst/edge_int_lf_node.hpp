#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "espalier/map/node_layout.hpp"
#include "espalier/map/tagged_ptr.hpp"

namespace espalier {

/// The nodes of edge_int_lf.hpp, which says what they mean.
template <class Key, class Value, class Layout>
struct edge_int_lf_nodes {
  struct node;
  using edge_word = stamped_edge<node, 3>;
  using edge = std::atomic<edge_word>;

  /// The entry of a node: the value of its key, or, once promoted, the entry of its successor. The bits are at the top
  /// because a cell may have any alignment.
  class entry_word {
   public:
    static constexpr std::uintptr_t promoted = std::uintptr_t{1} << 63U;  // of a target
    static constexpr std::uintptr_t ready = std::uintptr_t{1} << 62U;     // promoted, successor unlinked
    static constexpr std::uintptr_t sealed = std::uintptr_t{1} << 61U;    // of a successor

    entry_word() noexcept = default;
    explicit entry_word(const Value* cell) noexcept : word_(reinterpret_cast<std::uintptr_t>(cell)) {}
    explicit entry_word(node* successor) noexcept
        : word_(reinterpret_cast<std::uintptr_t>(successor) | promoted) {}

    [[nodiscard]] bool has(std::uintptr_t bits) const noexcept { return (word_ & bits) != 0; }
    [[nodiscard]] bool is_final() const noexcept { return has(promoted | sealed); }
    [[nodiscard]] entry_word with(std::uintptr_t bit) const noexcept {
      entry_word w;
      w.word_ = word_ | bit;
      return w;
    }
    [[nodiscard]] const Value* cell() const noexcept { return reinterpret_cast<const Value*>(address()); }
    [[nodiscard]] node* successor() const noexcept { return reinterpret_cast<node*>(address()); }

   private:
    [[nodiscard]] std::uintptr_t address() const noexcept { return word_ & ~(promoted | ready | sealed); }
    std::uintptr_t word_ = 0;
  };

  // Search fields first: 24 of 32 bytes, and the compact layout aligns them to 32.
  struct compact_fields {
    Key key;  // written by the constructor, and in a copy before it is published
    std::array<edge, 2> child;
    std::atomic<entry_word> entry;

    compact_fields(const Key& k, entry_word e, edge_word empty) noexcept
        : key(k), child{empty, empty}, entry(e) {}
  };

  // As in the implementation that the study measured: a word for readyToReplace, here unused. The study finds one
  // fault with the node's use: reads record what only updates need.
  struct published_fields {
    Key key;
    std::array<edge, 2> child;
    std::uint64_t ready;
    std::atomic<entry_word> entry;

    published_fields(const Key& k, entry_word e, edge_word empty) noexcept
        : key(k), child{empty, empty}, ready(0), entry(e) {}
  };

  static constexpr bool compact = Layout::shape == node_shape::compact;
  using fields = std::conditional_t<compact, compact_fields, published_fields>;

  struct alignas(Layout::node_align(sizeof(fields), alignof(fields))) node : fields {
    using fields::fields;
  };

  static_assert(edge::is_always_lock_free && std::atomic<entry_word>::is_always_lock_free,
                "this processor has no lock-free atomics of that size");
  static_assert(sizeof(Key) != 8 || alignof(Key) != 8 ||
                    (offsetof(compact_fields, key) == 0 && offsetof(compact_fields, child) == 8 &&
                     offsetof(compact_fields, entry) == 24 && sizeof(compact_fields) == 32 &&
                     offsetof(published_fields, child) == 8 && offsetof(published_fields, ready) == 24 &&
                     offsetof(published_fields, entry) == 32 && sizeof(published_fields) == 40),
                "the layout of a node, on which the measured figures rest, has changed");

  static constexpr auto members =
      std::to_array<node_member>({{"key", offsetof(fields, key), sizeof(Key), search_use::all},
                                  {"child", offsetof(fields, child), sizeof(fields::child), search_use::half},
                                  {"entry", offsetof(fields, entry), sizeof(fields::entry)}});
};

}  // namespace espalier
