#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "espalier/memory/index_class.hpp"
#include "espalier/memory/index_colour.hpp"

namespace espalier {

class index_arena;

/// The header of each region of index-aware memory, which is aligned to its size: it names the arena that owns the
/// blocks. A region holds one run. A block too large for a class begins in a region of its own.
struct index_region {
  static constexpr std::size_t bytes = std::size_t{256} << 10U;

  /// Null for a block too large for a class.
  index_arena* arena;
  /// Where the run begins, from the beginning of the region.
  std::size_t first;

  /// The region in which a block of index-aware memory begins.
  [[nodiscard]] static const index_region& of(const void* block) noexcept {
    return *std::bit_cast<const index_region*>(std::bit_cast<std::uintptr_t>(block) & ~(bytes - 1));
  }
};

/// The bump-allocated blocks of a region, one after the other as the class table says. One thread uses it; any thread
/// may call blocks_taken().
class index_run {
 public:
  [[nodiscard]] void* next() noexcept {
    // relaxed: only the owner writes it, and blocks_taken() is exact at quiescence.
    const std::size_t taken = taken_.load(std::memory_order_relaxed);
    if (taken == blocks_) return nullptr;
    taken_.store(taken + 1, std::memory_order_relaxed);
    return first_ + shape_.offset(taken);
  }

  /// Continues in another region.
  void begin(index_region& region, const index_class::shape& shape) noexcept {
    first_ = reinterpret_cast<std::byte*>(&region) + region.first;
    shape_ = shape;
    blocks_ = blocks_from(shape, region.first);
    taken_.store(0, std::memory_order_relaxed);  // relaxed: as in next()
    begun_ = true;
  }

  /// False before the first begin().
  [[nodiscard]] bool has_begun() const noexcept { return begun_; }

  /// The index at which the block after the last one would begin. The next run begins there, so that the blocks of
  /// both are as evenly spread as those of one.
  [[nodiscard]] std::size_t index_after() const noexcept {
    return (std::bit_cast<std::uintptr_t>(first_) + shape_.offset(blocks_)) / index_class::line %
           index_class::indices;
  }

  // relaxed: exact at quiescence.
  [[nodiscard]] std::size_t blocks_taken() const noexcept { return taken_.load(std::memory_order_relaxed); }

  /// The number of blocks of a run that begins at this offset of a region.
  [[nodiscard]] static constexpr std::size_t blocks_from(const index_class::shape& shape,
                                                         std::size_t offset) noexcept {
    const std::size_t fit = shape.block_at(index_region::bytes - offset);
    // Where a line is left out, only whole periods visit every index equally often.
    return shape.punctuated ? fit - fit % index_class::indices : fit;
  }

 private:
  std::byte* first_ = nullptr;
  index_class::shape shape_{};
  std::size_t blocks_ = 0;
  std::atomic<std::size_t> taken_{0};
  bool begun_ = false;
};

}  // namespace espalier
