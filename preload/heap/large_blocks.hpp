#pragma once

#include <atomic>
#include <cstddef>

#include "preload/heap/address_registry.hpp"
#include "preload/heap/page_source.hpp"
#include "preload/heap/region.hpp"
#include "preload/heap/span_pool.hpp"

namespace espalier::preload {

/// Blocks too large for a class. Up to most_in_span they have rows of regions out of the pool, so that one which
/// comes back soon is given out again without a system call; others have addresses of their own, by whole
/// registry units. Each begins at another index than the one before (index_colour::of_large).
///
/// They may be used to the end of their last page. Any thread.
class large_blocks {
 public:
  constexpr large_blocks(address_registry& registry, page_source& pages, span_pool& spans) noexcept
      : registry_(registry), pages_(pages), spans_(spans) {}
  large_blocks(const large_blocks&) = delete;
  large_blocks& operator=(const large_blocks&) = delete;

  /// A block of these is in a span wherever its index has it begin in its first region.
  static constexpr std::size_t most_in_span = (span_pool::most_regions - 1) * region_bytes;
  static constexpr std::size_t most_align_in_span = std::size_t{4} << 20U;

  /// `align` is a power of two. Null where there is no memory; `zeroed` says whether all bytes are zero.
  [[nodiscard]] void* allocate(std::size_t bytes, std::size_t align, bool& zeroed) noexcept;

  /// For blocks of this class only, which the registry and the region tell: in a span, and by itself.
  void give_back(region& of) noexcept;
  void give_back_huge(void* block) noexcept;
  [[nodiscard]] static std::size_t usable_bytes(const region& of) noexcept { return of.bytes; }
  [[nodiscard]] static std::size_t usable_bytes_huge(void* block) noexcept;

  /// In place, up or down; false, with nothing changed, where that cannot be or would waste memory.
  [[nodiscard]] bool resize(region& of, std::size_t bytes) noexcept;
  /// In place, or by moving pages; null with nothing changed.
  [[nodiscard]] void* resize_huge(void* block, std::size_t bytes) noexcept;

  struct figures {
    std::size_t blocks = 0;  ///< huge ones
    std::size_t bytes = 0;   ///< that these may use
  };
  [[nodiscard]] figures count_huge() const noexcept {
    return {huge_count_.load(std::memory_order_relaxed), huge_bytes_.load(std::memory_order_relaxed)};
  }

 private:
  void* allocate_huge(std::size_t bytes, std::size_t align, std::size_t offset) noexcept;

  address_registry& registry_;
  page_source& pages_;
  span_pool& spans_;
  // relaxed: they spread and count, and order nothing.
  std::atomic<std::size_t> number_{0};
  std::atomic<std::size_t> huge_count_{0};
  std::atomic<std::size_t> huge_bytes_{0};
};

}  // namespace espalier::preload
