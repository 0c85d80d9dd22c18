#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "espalier/memory/parts/index_class.hpp"
#include "preload/heap/address_registry.hpp"
#include "preload/heap/block_geometry.hpp"
#include "preload/heap/large_blocks.hpp"
#include "preload/heap/page_source.hpp"
#include "preload/heap/region.hpp"
#include "preload/heap/span_pool.hpp"

namespace espalier::preload {

/// State that all threads' heaps share: regions, large blocks, and the colours at which runs begin. Any
/// thread. relaxed throughout: the two counters spread runs over indices and pages, and order nothing.
struct heap_commons {
  explicit constexpr heap_commons(address_registry& of_addresses) noexcept
      : registry(of_addresses), spans(of_addresses, pages), large(of_addresses, pages, spans) {}

  /// The index at which a heap's first run of a class begins.
  [[nodiscard]] std::size_t first_index(std::size_t size_class) noexcept {
    return index_colour::first_index(starts_[size_class].fetch_add(1, std::memory_order_relaxed), size_class);
  }
  /// The page of its region on which the next run begins.
  [[nodiscard]] std::size_t next_page() noexcept {
    return index_colour::page_of(runs_.fetch_add(1, std::memory_order_relaxed));
  }

  address_registry& registry;
  page_source pages;
  span_pool spans;
  large_blocks large;
  /// The pages of a run are touched when it begins, so that no transaction meets a page fault.
  bool prefault = false;
  /// How many unprocessed notifications a heap may have before other threads take over the regions that they
  /// would notify it of.
  std::uint32_t patience = 8;

 private:
  std::array<std::atomic<std::uint32_t>, index_class::count> starts_{};
  std::atomic<std::uint32_t> runs_{0};
};

/// A thread's process and thread number in the kernel; zeros are no thread.
struct kernel_thread {
  std::int32_t process = 0;
  std::int32_t thread = 0;

  [[nodiscard]] bool operator==(const kernel_thread&) const = default;
};

/// The current region of a class that has none: it has no free block.
inline constinit region no_region{};

/// A thread's heap, which spreads blocks over all indices of a cache (Afek, Dice and Morrison, "Cache index-aware
/// memory allocation", ISMM 2011, in the variant of "The Influence of Malloc Placement on TSX Hardware Transactional
/// Memory", section 2). It uses the size classes of memory/parts/index_class. Each region has a run of one class; a run
/// begins at the index where the one before ended. Of N blocks of a class from a new heap, at most N / 64 rounded up
/// begin at any one index. Freed blocks are reused in reverse order, wherever they lie, so this bound ends when
/// blocks of a class are freed in another order.
///
/// The owner allocates and frees without a locked instruction, in amortised constant time except for system calls
/// that get memory. Other threads push the blocks that they free onto the region's remote free list, lock-free. The
/// owner collects them at the latest when its current region of the class is used up. An owner may stop looking, such
/// as a thread that fills memory on which others then work. Other threads then take over its abandoned regions, as
/// long as they allocate blocks of the class themselves.
///
/// A heap caches blocks of abandoned regions that its own thread filled and frees, a few of each class, and hands
/// them out next. Otherwise a heap used to the last block would change regions with every block.
///
/// Orderings
///   (1) free_remotely (release) -> refill, collect_unnotified, collect_notified, free_empty_regions (acquire): the
///       links of the remote free list, and the program's last accesses to its blocks, precede their reuse.
///   (2) abandon, collect_notified (release) -> free_remotely (acquire): the thread that clears the notify bit sees the
///       region's owner, or its home and all that its last owner wrote.
///   (3) notify (release) -> process_notifications (acquire): the owner sees the links of the list of notified
///       regions, and the notifying threads no longer use these regions.
///   (4) push, cache_block (release) -> after_fork_in_child (fork) in thread_heaps.cpp: the copy of a free list is
///       whole, because a block is linked before the head points to it. A compiler fence suffices: the copy has a
///       thread's stores in program order, up to some instruction.
///   (5) heap_in_use (seq_cst) -> after_fork_in_child (fork) in thread_heaps.cpp: a heap that is copied during a change
///       has busy_ set. A compiler fence suffices as in (4).
///
/// Only the owner calls what follows, except notify().
class thread_heap {
 public:
  explicit constexpr thread_heap(heap_commons& commons) noexcept : commons_(commons) {
    for (region*& r : by_granules_) r = &no_region;
    for (class_regions& c : plain_) c.current = &no_region;
    for (class_regions& c : aligned_) c.current = &no_region;
  }
  thread_heap(const thread_heap&) = delete;
  thread_heap& operator=(const thread_heap&) = delete;

  /// Aligned to 16 bytes. Null where the caller must use allocate().
  [[nodiscard]] __attribute__((always_inline)) void* allocate_quickly(std::size_t bytes) noexcept {
    bool zeroed = false;
    return allocate_quickly(bytes, zeroed);
  }

  /// `zeroed` becomes true where all bytes of the block are zero.
  [[nodiscard]] __attribute__((always_inline)) void* allocate_quickly(std::size_t bytes,
                                                                      bool& zeroed) noexcept {
    if (bytes > dense_bytes) [[unlikely]] {
      if (bytes > index_class::largest_bytes) return nullptr;
      return pop(*plain_[classes_by_lines[(bytes + index_class::line - 1) / index_class::line]].current,
                 zeroed);
    }
    return pop(*by_granules_[granules_of(bytes)], zeroed);
  }

  /// Frees a block of this heap's plain regions; false where the caller must use deallocate().
  [[nodiscard]] __attribute__((always_inline)) bool deallocate_quickly(const address_registry& registry,
                                                                       void* block) noexcept {
    const std::size_t unit = address_registry::unit_of(block);
    if (registry.of_unit(unit) != address_registry::span) [[unlikely]]
      return false;
    region& r = *region_of(unit, block);
    // relaxed: only this heap's thread stores this heap here or removes it, so it reads its own latest store.
    if (r.quick_owner.load(std::memory_order_relaxed) != this) [[unlikely]]
      return false;
    push(r, block);
    return true;
  }

  /// Null with nothing changed where there is no memory.
  [[nodiscard]] void* allocate(std::size_t bytes) noexcept;
  /// `align` is a power of two.
  [[nodiscard]] void* allocate_aligned(std::size_t bytes, std::size_t align) noexcept;
  [[nodiscard]] void* allocate_zeroed(std::size_t bytes) noexcept;

  /// Frees a block of any heap with these commons. Null and blocks of other allocators are ignored. A pointer that is
  /// recognised as invalid ends the program (misused()). Of double frees, it detects two in direct succession, and
  /// those by which more blocks are freed than were handed out.
  void deallocate(void* block) noexcept;

  /// The block with its contents, grown or shrunk, possibly moved. Null with nothing changed. `old` is not null, and
  /// `bytes` is not zero.
  [[nodiscard]] void* resize(void* old, std::size_t bytes) noexcept;

  /// Frees the regions that contain no block; the result is their bytes.
  std::size_t free_empty_regions() noexcept;

  /// Notifies this heap: another thread freed a block of one of its regions that is not current, or of an abandoned
  /// one with this home.
  void notify(region& of) noexcept;

  /// Freed blocks in the cache. For figures; exact while the owner is idle.
  struct cached_blocks {
    std::size_t blocks = 0;
    std::size_t bytes = 0;
  };
  [[nodiscard]] cached_blocks count_cached() const noexcept;

  /// True while the heap changes its regions: a copy of the process made then cannot use its copy of the heap.
  /// relaxed: row (5) orders it for a forked child; free_heaps_of_ended_threads() leaves out heaps of threads that
  /// ended during a change.
  [[nodiscard]] bool busy() const noexcept { return busy_.load(std::memory_order_relaxed); }

  // Only the list of heaps uses these.
  thread_heap* next = nullptr;
  kernel_thread owned_by;

 private:
  struct class_regions {
    region* current;
    region* with_room;   // doubly linked
    free_block* cached;  // cache: blocks of full regions
    std::uint32_t cached_count;
    std::uint32_t next_index;
    bool begun;
  };
  class heap_in_use;

  /// A freed block, or the next one by bump allocation. Null where the region has neither.
  [[nodiscard]] __attribute__((always_inline)) static void* pop(region& from, bool& zeroed) noexcept {
    free_block* const block = from.free;
    if (block != nullptr) [[likely]] {
      from.free = block->next;
      // The link is read by the next allocation, possibly from memory that another thread used last.
      __builtin_prefetch(from.free, 1);
      ++from.count;
      return block;
    }
    std::byte* const fresh = from.bump;
    if (fresh == from.bump_end) [[unlikely]]
      return nullptr;
    from.bump = fresh + from.stride;
    ++from.count;
    zeroed = from.zeroed;
    return fresh;
  }
  __attribute__((always_inline)) void push(region& r, void* block) noexcept {
    auto* const freed = static_cast<free_block*>(block);
    free_block* const before = r.free;
    // A double free in direct succession. To detect others, the free list would have to be searched.
    if (freed == before) [[unlikely]]
      double_free(block);
    freed->next = before;
    // order (4): push, release. A copy of the process may be made between any two instructions.
    std::atomic_signal_fence(std::memory_order_release);
    r.free = freed;
    if (--r.count == 0) [[unlikely]]
      counted_down(r);
  }

  bool refill(class_regions& of, std::size_t size_class, region_use use, bool grows) noexcept;
  static void begin_group(region& r) noexcept;
  region* new_region(class_regions& of, std::size_t size_class, region_use use) noexcept;
  void make_current(class_regions& of, region& r) noexcept;
  void set_granules(const class_regions& of, std::size_t size_class) noexcept;
  void* allocate_of(class_regions& of, std::size_t size_class, region_use use, bool& zeroed,
                    bool grows = true) noexcept;
  void* allocate_plain(std::size_t size_class, bool& zeroed) noexcept;
  void* allocate(std::size_t bytes, bool& zeroed) noexcept;

  [[noreturn]] static void double_free(const void* block) noexcept;
  void counted_down(region& r) noexcept;
  void link(region& r) noexcept;
  void unlink(region& r) noexcept;
  void release(region& r) noexcept;
  static void append(region& r, remote_free_list list) noexcept;
  void collect_unnotified(region& r) noexcept;
  void used_up(region& r) noexcept;
  void own(region& r) noexcept;
  void abandon(region& r) noexcept;
  void notify_owner(region& r) noexcept;
  void cache_block(region& r, void* block) noexcept;
  [[nodiscard]] static void* pop_cached(class_regions& of) noexcept;
  void free_cached(class_regions& of) noexcept;
  void process_notifications() noexcept;
  void collect_notified(region& r) noexcept;
  class_regions& list_of(const region& r) noexcept {
    return (r.use == region_use::aligned ? aligned_ : plain_)[r.size_class];
  }

  std::array<region*, granules> by_granules_{};
  std::array<class_regions, index_class::count> plain_{};
  std::array<class_regions, index_class::count> aligned_{};
  heap_commons& commons_;
  std::atomic<bool> busy_{false};
  // Other threads write these.
  alignas(128) std::atomic<region*> notified_{nullptr};
  std::atomic<std::uint32_t> notified_count_{0};  // length of that list, approximately
};

/// The usable bytes of a block, at least the requested ones; 0 for null and for blocks of other allocators.
[[nodiscard]] std::size_t usable_bytes(const address_registry& registry, void* block) noexcept;

}  // namespace espalier::preload
