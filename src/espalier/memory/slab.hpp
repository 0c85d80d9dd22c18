#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "espalier/hw/pages.hpp"
#include "espalier/memory/placement_concept.hpp"
#include "espalier/sync/per_thread.hpp"
#include "espalier/sync/ttas_lock.hpp"

namespace espalier {

/// Blocks of one size, laid end to end in pages of their own. Two blocks that one thread allocates in a row
/// are neighbours while the slab grows, which puts an external tree's new router beside its new leaf.
///
/// Each thread takes runs of fresh blocks, and keeps the blocks that it frees; beyond a bound it hands them
/// on in batches, so that memory freed by one thread serves all. Allocation and deallocation are a few
/// instructions on memory of the calling thread; a lock is taken once per batch or run.
///
/// Pages come in spans that double from 64 KiB to 1 GiB, advised as huge pages from 2 MiB on; only what has
/// been handed out is backed by memory. They go back to the system when the slab dies.
class slab {
 public:
  /// Whether a byte is kept for each block, apart from it, for the use of a layer above.
  enum class side_table : bool { none, one_byte };

  /// block_bytes as size_class::bytes_for() gives them: a multiple of the alignment that is wanted. Every
  /// span begins on a page.
  explicit slab(std::size_t block_bytes, side_table side = side_table::none);
  slab(const slab&) = delete;
  slab& operator=(const slab&) = delete;
  /// Gives back every page, blocks in use included.
  ~slab();

  /// Throws std::bad_alloc with nothing changed.
  [[nodiscard]] void* allocate();
  void deallocate(void* memory) noexcept;

  /// The byte kept for the block in which an address lies; zero at first, and untouched by the slab. Null for
  /// an address that is not in this slab. Only with a side table. Looks through the spans, of which there
  /// are O(log blocks), the latest and largest first.
  [[nodiscard]] std::atomic<std::uint8_t>* side_byte(const void* address) const noexcept;

  [[nodiscard]] std::size_t block_bytes() const noexcept { return block_bytes_; }
  [[nodiscard]] memory_usage usage() const noexcept;

 private:
  struct free_block {
    free_block* next;        // in a thread's list or in a batch
    free_block* next_batch;  // in the list of batches, on the first block of each
  };

  struct cache {
    free_block* free = nullptr;
    std::size_t free_count = 0;
    std::byte* fresh = nullptr;
    std::byte* fresh_end = nullptr;
    // Owner writes, usage() reads. Negative for a thread that frees what others allocated.
    std::atomic<std::int64_t> in_use{0};
  };

  struct span {
    hw::page_run pages;
    hw::page_run side;
  };

  static constexpr std::size_t batch = 64;
  // A tebibyte, nearly.
  static constexpr std::size_t most_spans = 1024;

  void* allocate_slowly(cache& c);
  void give_batch(cache& c) noexcept;
  void map_span(span& fresh, std::size_t bytes) const;
  void add_span(std::size_t run_bytes);

  const std::size_t block_bytes_;
  const side_table side_;
  per_thread<cache> caches_;

  alignas(hw::false_sharing_bytes) ttas_lock lock_;
  free_block* batches_ = nullptr;
  std::byte* span_next_ = nullptr;
  std::byte* span_end_ = nullptr;
  std::size_t next_span_bytes_;
  std::atomic<std::uint64_t> carved_bytes_{0};
  std::atomic<std::size_t> span_count_{0};
  std::array<std::atomic<span*>, most_spans> spans_{};
};

}  // namespace espalier
