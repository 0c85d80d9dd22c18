#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

// A placement decides where the blocks of a map lie. It is the policy by which trees of one algorithm differ
// in cache lines touched, sets used and pages crossed (Arbel-Raviv, Brown and Morrison, ATC 2018, sections
// 3.2 and 4.3). It is the interface for segregated allocation that those authors ask for.

namespace espalier {

/// What a block is for. Placements may keep roles apart; reports name them. The last ones are a program's own, which it names
/// in its node_types (map/node_layout.hpp).
enum class memory_role : std::uint8_t {
  node,
  leaf,
  descriptor,
  value,
  other,
  program_1,
  program_2,
  program_3
};

inline constexpr std::size_t memory_role_count = 8;

[[nodiscard]] constexpr std::string_view to_string(memory_role role) noexcept {
  constexpr std::string_view names[memory_role_count] = {"node",  "leaf",      "descriptor", "value",
                                                         "other", "program 1", "program 2",  "program 3"};
  return names[static_cast<std::size_t>(role)];
}

/// A request for memory. The deallocation passes the same three values.
struct block {
  std::size_t bytes;
  std::size_t align;
  memory_role role;
};

/// How much memory a placement holds. Exact at quiescence.
struct memory_usage {
  /// Blocks allocated and not yet deallocated.
  std::uint64_t blocks = 0;
  /// Bytes of those blocks, rounded up as they are held (to the size class).
  std::uint64_t bytes_in_use = 0;
  /// Bytes taken from the system or from the heap below and backed by memory: blocks in use, blocks free
  /// for reuse, and what rounding costs.
  std::uint64_t bytes_reserved = 0;

  memory_usage& operator+=(const memory_usage& part) noexcept {
    blocks += part.blocks;
    bytes_in_use += part.bytes_in_use;
    bytes_reserved += part.bytes_reserved;
    return *this;
  }
};

/// Thread-safe source of blocks.
///
/// allocate throws std::bad_alloc and then has changed nothing. `near` names a block beside which the new
/// one would best lie (a parent, a predecessor), or null; a placement may ignore it. deallocate takes the
/// request of the allocation; any thread may call it. releases_on_destruction says that the destructor
/// frees every block still in use, so that a map's destructor need not visit its nodes.
template <class P>
concept placement = requires(P& p, const P& constant, const block& b, void* memory, const void* near) {
  { p.allocate(b, near) } -> std::same_as<void*>;
  { p.deallocate(memory, b) } noexcept;
  { constant.usage() } -> std::same_as<memory_usage>;
  { P::releases_on_destruction } -> std::convertible_to<bool>;
  { P::name } -> std::convertible_to<std::string_view>;
};

/// Bytes of a block, rounding included, if the placement has a member bytes_held(memory, b); otherwise the bytes
/// asked for.
template <placement P>
[[nodiscard]] std::size_t bytes_held(const P& from, const void* memory, const block& b) noexcept {
  if constexpr (requires { from.bytes_held(memory, b); })
    return from.bytes_held(memory, b);
  else
    return b.bytes;
}

/// A placement that draws its blocks from malloc, as its `from_heap` says: all instances have one source, and
/// malloc says how many bytes a block has.
template <class P>
concept heap_placement = placement<P> && requires { requires P::from_heap; };

/// The common part of placements around another one. Each derives from it, defines allocate(), and redefines the
/// members that differ.
template <placement Below>
class placement_over {
 public:
  static constexpr bool releases_on_destruction = Below::releases_on_destruction;
  static constexpr bool from_heap = heap_placement<Below>;

  placement_over(const placement_over&) = delete;
  placement_over& operator=(const placement_over&) = delete;

  void deallocate(void* memory, const block& b) noexcept { below_.deallocate(memory, b); }

  [[nodiscard]] std::size_t bytes_held(const void* memory, const block& b) const noexcept {
    return espalier::bytes_held(below_, memory, b);
  }

  [[nodiscard]] memory_usage usage() const noexcept { return below_.usage(); }

 protected:
  /// The arguments construct the placement below.
  template <class... Arguments>
  explicit placement_over(Arguments&&... arguments) : below_(std::forward<Arguments>(arguments)...) {}
  ~placement_over() = default;

  Below below_;
};

}  // namespace espalier
