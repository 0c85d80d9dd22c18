#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "espalier/memory/parts/index_arena.hpp"
#include "espalier/memory/parts/index_class.hpp"
#include "espalier/memory/parts/made_once.hpp"
#include "espalier/memory/parts/page_blocks.hpp"
#include "espalier/memory/parts/size_class.hpp"
#include "espalier/memory/parts/slab.hpp"
#include "espalier/memory/placement_concept.hpp"

namespace espalier {

/// Blocks placed so that they use every set of the caches alike (Afek, Dice and Morrison, "Cache index-aware
/// memory allocation", ISMM 2011; "The Influence of Malloc Placement on TSX Hardware Transactional Memory",
/// section 1). Where blocks of a round size follow each other closely, a few sets hold them all. A thread that
/// visits their first lines has conflict misses, and its transactions have capacity aborts. Here
///
/// - blocks of one class, role and thread follow each other at a stride that visits every index
///   (memory/parts/index_class): of N blocks from a new arena, no index has more than N / 64 rounded up;
/// - the runs of different threads, roles and classes begin at different indices, and on different pages;
/// - blocks of 64 bytes and more are aligned to 64 bytes: no line is shared.
///
/// The thread that frees blocks uses them again, in the reverse order. A thread that mostly allocates what other
/// threads freed therefore spreads its blocks by chance.
///
/// Blocks above index_class::largest_bytes (32 KiB) lie in a slab for each role and size, at the odd strides of
/// size_class; each covers every index. Blocks above 2 MiB have pages of their own, and begin at one index after the
/// other.
///
/// memory/parts/index_class says what rounding costs: bytes held over bytes asked are at most 1.29 from 320 bytes on.
///
/// O(1) per operation, except that each block above 2 MiB is a system call. A thread takes a lock once per batch of
/// blocks, or run. All memory returns to the OS with the placement.
class index_aware {
 public:
  static constexpr bool releases_on_destruction = true;
  static constexpr std::string_view name = "index_aware";

  index_aware() = default;
  index_aware(const index_aware&) = delete;
  index_aware& operator=(const index_aware&) = delete;

  /// Alignments above 2 MiB throw std::bad_alloc.
  [[nodiscard]] void* allocate(const block& b, const void* near = nullptr);
  void deallocate(void* memory, const block& b) noexcept;

  [[nodiscard]] memory_usage usage() const noexcept;
  [[nodiscard]] std::size_t bytes_held(const void* memory, const block& b) const noexcept;

 private:
  /// index_class::none for a block that lies in a slab or in pages of its own.
  [[nodiscard]] static std::size_t class_of(const block& b) noexcept {
    // Tested first: the sum of bytes and alignment may overflow.
    if (b.bytes > index_class::largest_bytes || b.align > index_class::largest_bytes)
      return index_class::none;
    return index_class::of(index_class::bytes_within(b.bytes, b.align), b.align);
  }
  [[nodiscard]] made_once<index_arena>& arena(memory_role role, std::size_t index_class) noexcept {
    return arenas_[static_cast<std::size_t>(role)][index_class];
  }
  // The slabs' first class: blocks that index_class does not take hold as many bytes or more.
  static constexpr std::size_t first_in_slabs =
      size_class::index_of(std::bit_floor(index_class::largest_bytes));

  [[nodiscard]] made_once<slab>& slab_of(const block& b, std::size_t held) noexcept {
    return slabs_[static_cast<std::size_t>(b.role)][size_class::index_of(held) - first_in_slabs];
  }
  [[nodiscard]] void* allocate_large(const block& b);
  void deallocate_large(void* memory, const block& b) noexcept;

  index_regions regions_;
  std::array<std::array<made_once<index_arena>, index_class::count>, memory_role_count> arenas_{};
  std::array<std::array<made_once<slab>, size_class::count - first_in_slabs>, memory_role_count> slabs_{};
  page_blocks large_{2 * size_class::largest};
  std::atomic<std::uint32_t> large_blocks_{0};
};

static_assert(placement<index_aware>);

}  // namespace espalier
