#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "espalier/hw/fork_recovery.hpp"
#include "espalier/hw/pages.hpp"
#include "espalier/memory/parts/block_cache.hpp"
#include "espalier/memory/placement_concept.hpp"

namespace espalier {

// Orderings
//   (1) add_span (release) -> span_of (acquire): a thread that finds the newest span sees its bounds, and the older ones.

/// A block of two parts that lie apart: a front, with what many operations touch, and a rest. The address of one
/// part gives that of the other: blocks come in aligned groups, and all fronts of a group lie before all its rests.
struct split_block {
  std::size_t front_bytes;
  std::size_t rest_bytes;

  /// A huge page: front and rest share an entry of the TLB where the system provides such pages.
  static constexpr std::size_t group_bytes = std::size_t{2} << 20U;

  [[nodiscard]] constexpr bool is_split() const noexcept { return rest_bytes != 0; }

  /// Bytes of the fronts at the start of a group. Whole pages, so that the fronts of a large map fill all sets of a
  /// cache alike.
  [[nodiscard]] constexpr std::size_t fronts_bytes() const noexcept {
    constexpr std::size_t page = std::size_t{4} << 10U;
    return group_bytes * front_bytes / (front_bytes + rest_bytes) / page * page;
  }

  [[nodiscard]] std::byte* rest_of(const void* front) const noexcept {
    const auto address = std::bit_cast<std::uintptr_t>(front);
    const std::uintptr_t offset = address & (group_bytes - 1);
    return std::bit_cast<std::byte*>(address - offset + fronts_bytes() + offset * rest_bytes / front_bytes);
  }
};

/// A run of bump-allocated blocks that lie end to end.
struct end_to_end_run {
  std::byte* bump = nullptr;
  std::byte* end = nullptr;
  std::size_t block_bytes = 0;

  void* next() noexcept { return bump == end ? nullptr : std::exchange(bump, bump + block_bytes); }
};

/// Blocks of one size, laid end to end in pages of their own. Two blocks that one thread allocates in a row
/// are neighbours while the slab grows, which puts an external tree's new router beside its new leaf.
///
/// Each thread takes runs of bump-allocated blocks and caches some of the blocks that it frees; block_cache says how.
///
/// Pages come in spans that double from 64 KiB to 1 GiB, advised as huge pages from 2 MiB on; only pages of
/// blocks that were handed out are backed by memory. They return to the OS when the slab is destroyed. Where most blocks
/// are free, stretches of 2 MiB and more without a block in use return before, and are handed out again as new ones: a
/// deallocation that finds so looks through the free blocks under the lock, after half as many deallocations.
class slab {
 public:
  /// Whether the slab has a byte for each block, apart from it, for the use of a layer above.
  enum class side_table : bool { none, one_byte };

  /// block_bytes as returned by size_class::bytes_for(): a multiple of the alignment that is wanted. Every
  /// block is aligned to the largest power of two that divides them. With a NUMA node (the operating system's
  /// index), pages are bound to it as far as the system allows.
  explicit slab(std::size_t block_bytes, side_table side = side_table::none,
                std::optional<unsigned> numa_node = std::nullopt)
      : slab(split_block{block_bytes, 0}, side, numa_node) {}
  /// The blocks are fronts of split ones. Their rests are poisoned at first, and the slab never changes that.
  slab(const split_block& shape, side_table side, std::optional<unsigned> numa_node = std::nullopt);
  slab(const slab&) = delete;
  slab& operator=(const slab&) = delete;
  /// Returns every page to the OS, blocks in use included.
  ~slab();

  /// Throws std::bad_alloc with nothing changed.
  [[nodiscard]] void* allocate() {
    return blocks_.allocate([this](end_to_end_run& fresh) { refill(fresh); });
  }
  void deallocate(void* memory) noexcept {
    blocks_.deallocate(memory, [this]() noexcept { reduce(); });
  }

  /// The byte of the block in which an address lies; zero at first, and never changed by the slab. Null for
  /// an address that is not in this slab. Only with a side table. Searches the spans, of which there
  /// are O(log blocks), the latest and largest first.
  [[nodiscard]] std::atomic<std::uint8_t>* side_byte(const void* address) const noexcept;

  /// Whether an address lies in this slab; as quick as side_byte.
  [[nodiscard]] bool holds(const void* address) const noexcept { return span_of(address) != nullptr; }

  [[nodiscard]] std::size_t block_bytes() const noexcept { return shape_.front_bytes; }
  [[nodiscard]] memory_usage usage() const noexcept;
  /// Of the slab itself, its spans and what threads cache, which are not in usage().
  [[nodiscard]] std::size_t bytes_beside_blocks() const noexcept;

 private:
  struct span {
    hw::page_run pages;
    std::byte* begin = nullptr;  // of the first block, which may need more alignment than a page has
    hw::page_run side;
    span* older = nullptr;

    [[nodiscard]] std::byte* end() const noexcept { return pages.data() + pages.size(); }
  };

  void refill(end_to_end_run& fresh);
  void reduce() noexcept;
  void add_returned(std::byte* begin, std::byte* end) noexcept;
  [[nodiscard]] const span* span_of(const void* address) const noexcept;
  [[nodiscard]] bool keeps_index() const noexcept;
  void map_span(span& fresh, std::size_t bytes) const;
  void add_span(std::size_t run_bytes);
  [[nodiscard]] std::size_t room() noexcept;
  void recover_in_child(const hw::fork_survivor& survivor) noexcept;

  const split_block shape_;
  const side_table side_;
  const std::optional<unsigned> numa_node_;
  block_cache<end_to_end_run> blocks_;

  /// A stretch of blocks whose memory the OS has. Lies in its first block.
  struct returned {
    returned* next;
    std::byte* end;
  };

  // Under the lock of blocks_.
  returned* returned_ = nullptr;
  std::size_t freed_since_look_ = 0;

  // Written by refill() only, in which there is one thread at a time.
  std::byte* span_next_ = nullptr;
  std::byte* span_end_ = nullptr;
  std::size_t next_span_bytes_;
  std::atomic<std::uint64_t> carved_bytes_{0};
  std::atomic<span*> newest_{nullptr};
  hw::fork_link after_fork_{this, [](void* one, const hw::fork_survivor& survivor) noexcept {
                              static_cast<slab*>(one)->recover_in_child(survivor);
                            }};
};

}  // namespace espalier
