#pragma once

#include <atomic>
#include <cstddef>

#include "preload/heap/address_registry.hpp"
#include "preload/heap/page_source.hpp"
#include "preload/heap/region.hpp"
#include "preload/heap/span_pool.hpp"

namespace espalier::preload {

/// Blocks too large for a size class. Blocks of up to most_in_span bytes take rows of regions from the pool, so that a
/// row freed a short time ago is reused without a system call. Larger blocks, called huge, have mappings of their own,
/// of whole registry units. Consecutive blocks begin at different cache indices (index_colour::of_large).
///
/// A block is usable up to the end of its last page. Any thread.
class large_blocks {
 public:
  constexpr large_blocks(address_registry& registry, page_source& pages, span_pool& spans) noexcept
      : registry_(registry), pages_(pages), spans_(spans) {}
  large_blocks(const large_blocks&) = delete;
  large_blocks& operator=(const large_blocks&) = delete;

  /// A block of at most this size fits a span, whichever index of its first region it begins at.
  static constexpr std::size_t most_in_span = (span_pool::most_regions - 1) * region_bytes;
  static constexpr std::size_t most_align_in_span = std::size_t{4} << 20U;

  /// `align` is a power of two. Null where there is no memory; `zeroed` becomes true where all bytes are
  /// zero.
  [[nodiscard]] void* allocate(std::size_t bytes, std::size_t align, bool& zeroed) noexcept;

  /// Only for blocks of this class: one in a span, which its region identifies, and a huge one, which the
  /// registry does.
  void deallocate(region& of) noexcept;
  void deallocate_huge(void* block) noexcept;
  [[nodiscard]] static std::size_t usable_bytes(const region& of) noexcept { return of.bytes; }
  [[nodiscard]] static std::size_t usable_bytes_huge(void* block) noexcept;

  /// Resizes in place, up or down. False with nothing changed where that is impossible or would waste memory.
  [[nodiscard]] bool resize(region& of, std::size_t bytes) noexcept;
  /// Resizes in place, or moves the pages. Null with nothing changed.
  [[nodiscard]] void* resize_huge(void* block, std::size_t bytes) noexcept;

  struct figures {
    std::size_t blocks = 0;  ///< huge blocks
    std::size_t bytes = 0;   ///< their usable bytes
  };
  [[nodiscard]] figures count_huge() const noexcept {
    // relaxed: figures that guard no data.
    return {huge_count_.load(std::memory_order_relaxed), huge_bytes_.load(std::memory_order_relaxed)};
  }

 private:
  void* allocate_huge(std::size_t bytes, std::size_t align, std::size_t offset) noexcept;

  address_registry& registry_;
  page_source& pages_;
  span_pool& spans_;
  // relaxed throughout: the counters spread blocks over indices and give figures, and order nothing.
  std::atomic<std::size_t> number_{0};
  std::atomic<std::size_t> huge_count_{0};
  std::atomic<std::size_t> huge_bytes_{0};
};

}  // namespace espalier::preload
