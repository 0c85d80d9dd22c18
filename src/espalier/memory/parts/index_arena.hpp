#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "espalier/hw/fork_recovery.hpp"
#include "espalier/memory/parts/block_cache.hpp"
#include "espalier/memory/parts/index_class.hpp"
#include "espalier/memory/parts/slab.hpp"
#include "espalier/memory/placement_concept.hpp"

namespace espalier {

/// The header of a region.
struct index_region {
  /// Where the run begins, from the beginning of the region.
  std::size_t first;

  /// The region in which a block lies.
  [[nodiscard]] static const index_region& of(const void* block) noexcept {
    return *std::bit_cast<const index_region*>(std::bit_cast<std::uintptr_t>(block) &
                                               ~(index_class::region_bytes - 1));
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
    blocks_ = index_class::blocks_from(shape, region.first);
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

 private:
  std::byte* first_ = nullptr;
  index_class::shape shape_{};
  std::size_t blocks_ = 0;
  std::atomic<std::size_t> taken_{0};
  bool begun_ = false;
};

/// The regions of one placement, and the colours at which runs begin in them. Thread-safe.
class index_regions {
 public:
  index_regions() : regions_(index_class::region_bytes) {}
  index_regions(const index_regions&) = delete;
  index_regions& operator=(const index_regions&) = delete;

  /// Throws std::bad_alloc with nothing changed.
  [[nodiscard]] void* take() { return regions_.allocate(); }

  /// Where the first run of a thread in an arena of this class begins: at an index apart from those of other threads
  /// and roles, as index_colour::first_index() says. Hashing keeps other placements apart.
  [[nodiscard]] std::size_t first_index(std::size_t index_class) noexcept;

  /// On which page of its region the next run begins.
  [[nodiscard]] std::size_t next_page() noexcept;

 private:
  slab regions_;
  // relaxed throughout: these counters spread the runs, and order nothing.
  std::array<std::atomic<std::uint32_t>, index_class::count> starts_{};
  std::atomic<std::uint32_t> runs_{0};
};

/// Blocks of one class of index_class and of one role, each thread's in runs of its own. The thread that frees a
/// block uses it again (block_cache), wherever it lies.
class index_arena {
 public:
  /// The regions must outlive it.
  index_arena(index_regions& regions, std::size_t index_class)
      : regions_(regions),
        class_(index_class),
        shape_(index_class::shape_of(index_class)),
        blocks_(shape_.stride) {}

  /// Throws std::bad_alloc with nothing changed.
  [[nodiscard]] void* allocate() {
    return blocks_.allocate([this](index_run& run) { refill(run); });
  }
  void deallocate(void* memory) noexcept { blocks_.deallocate(memory); }

  /// The beginning of the block in which an address lies.
  [[nodiscard]] void* block_start(void* address) const noexcept;
  [[nodiscard]] std::size_t block_bytes() const noexcept { return shape_.stride; }

  /// The reserved bytes begin with the first block of each run. Of the at most 36 KiB before it in the run's
  /// region, only the first line is touched; a huge page, where the system provides one, includes them.
  [[nodiscard]] memory_usage usage() const noexcept;

 private:
  void refill(index_run& run);
  void recover_in_child(const hw::fork_survivor& survivor) noexcept;

  index_regions& regions_;
  const std::size_t class_;
  const index_class::shape shape_;
  block_cache<index_run> blocks_;
  std::atomic<std::uint64_t> finished_bytes_{0};  // of the runs that are used up
  hw::fork_link after_fork_{this, [](void* one, const hw::fork_survivor& survivor) noexcept {
                              static_cast<index_arena*>(one)->recover_in_child(survivor);
                            }};
};

}  // namespace espalier
