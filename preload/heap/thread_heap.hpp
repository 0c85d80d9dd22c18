#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "espalier/memory/index_class.hpp"
#include "preload/heap/address_registry.hpp"
#include "preload/heap/block_geometry.hpp"
#include "preload/heap/heap_commons.hpp"
#include "preload/heap/region.hpp"

namespace espalier::preload {

/// A thread as the kernel numbers it, in its process; zeros are none.
struct kernel_thread {
  std::int32_t process = 0;
  std::int32_t thread = 0;

  [[nodiscard]] bool operator==(const kernel_thread&) const = default;
};

/// What regions are current before there is one: nothing is free in it.
inline constinit region no_region{};

/// A thread's blocks, placed so that they use every index of a cache alike (Afek, Dice and Morrison, "Cache
/// index-aware memory allocation", ISMM 2011, in the variant of "The Influence of Malloc Placement on TSX Hardware
/// Transactional Memory", section 2): the classes of memory/index_class, a run of one class in each region, runs
/// that go on at the index where the one before ended. Of N blocks of a class from a fresh heap, no index has more
/// than N / 64 rounded up begin in it. Blocks that come back are given out again in the reverse order, wherever
/// they lie, so that nothing is promised once blocks of a class were given back in another order.
///
/// The owner allocates and gives back without a locked instruction, in constant time, amortised, but for the system
/// calls that get memory. Others push what they give back onto the block's region: lock-free. Memory that they gave
/// back is the owner's to find, at the latest when its current region of the class is used up. Of an owner that does
/// not look, a thread that has filled memory which others work on, they take over regions that were full, as long as
/// they allocate blocks of the class themselves.
///
/// Blocks of full regions that come back to who filled them are kept aside, a few of each class, and handed out next:
/// else a heap that is used to the last block would change regions with every one.
///
/// The owner alone calls what follows, but for tell().
class thread_heap {
 public:
  explicit constexpr thread_heap(heap_commons& commons) noexcept : commons_(commons) {
    for (region*& r : by_granules_) r = &no_region;
    for (class_regions& c : plain_) c.current = &no_region;
    for (class_regions& c : aligned_) c.current = &no_region;
  }
  thread_heap(const thread_heap&) = delete;
  thread_heap& operator=(const thread_heap&) = delete;

  /// Aligned to 16 bytes. Null where allocate() is to be asked.
  [[nodiscard]] __attribute__((always_inline)) void* allocate_quickly(std::size_t bytes) noexcept {
    bool zeroed = false;
    return allocate_quickly(bytes, zeroed);
  }

  /// `zeroed` becomes true where all bytes of the block are zero.
  [[nodiscard]] __attribute__((always_inline)) void* allocate_quickly(std::size_t bytes,
                                                                      bool& zeroed) noexcept {
    if (bytes > dense_bytes) [[unlikely]] {
      if (bytes > index_class::largest_bytes) return nullptr;
      return taken(*plain_[classes_by_lines[(bytes + index_class::line - 1) / index_class::line]].current,
                   zeroed);
    }
    return taken(*by_granules_[granules_of(bytes)], zeroed);
  }

  /// Gives a block back if it is of one of this heap's plain regions; false where deallocate() is to be asked.
  [[nodiscard]] __attribute__((always_inline)) bool deallocate_quickly(const address_registry& registry,
                                                                       void* block) noexcept {
    const std::size_t unit = address_registry::unit_of(block);
    if (registry.of_unit(unit) != address_registry::span) [[unlikely]]
      return false;
    region& r = *region_of(unit, block);
    if (r.quick_owner.load(std::memory_order_relaxed) != this) [[unlikely]]
      return false;
    push(r, block);
    return true;
  }

  /// Null where there is no memory; nothing has changed then.
  [[nodiscard]] void* allocate(std::size_t bytes) noexcept;
  /// `align` is a power of two.
  [[nodiscard]] void* allocate_aligned(std::size_t bytes, std::size_t align) noexcept;
  [[nodiscard]] void* allocate_zeroed(std::size_t bytes) noexcept;

  /// Any block of any heap with these commons. Null, and what another allocator handed out, is ignored. What is
  /// recognised as no block ends the program (misused()): of blocks given back twice, those that come twice running, and
  /// those that leave more given back than were handed out.
  void deallocate(void* block) noexcept;

  /// The block with its contents, grown or shrunk, maybe elsewhere. Null with nothing changed. Neither `old` is null
  /// nor `bytes` zero.
  [[nodiscard]] void* resize(void* old, std::size_t bytes) noexcept;

  /// Gives the regions back in which nothing is left. Bytes of them.
  std::size_t give_back_empty() noexcept;

  /// Somebody gave back a block of a region of this heap's that was not current, or of one without owner whose home it
  /// is.
  void tell(region& of) noexcept;

  /// Blocks that were given back and are kept aside. For figures; exact while the owner does nothing.
  struct kept {
    std::size_t blocks = 0;
    std::size_t bytes = 0;
  };
  [[nodiscard]] kept count_aside() const noexcept;

  /// True while regions change hands: a copy of the process made then has a heap that nobody can use.
  [[nodiscard]] bool busy() const noexcept { return busy_.load(std::memory_order_relaxed); }

  // For the list of heaps, which alone uses them.
  thread_heap* next = nullptr;
  kernel_thread owned_by;

 private:
  struct class_regions {
    region* current;
    region* with_room;  // doubly linked
    free_block* aside;  // of full regions
    std::uint32_t aside_count;
    std::uint32_t next_index;
    bool begun;
  };
  class at_work;

  /// A block that was given back, or the next that was never handed out. Null where the region has none at hand.
  [[nodiscard]] __attribute__((always_inline)) static void* taken(region& from, bool& zeroed) noexcept {
    free_block* const block = from.free;
    if (block != nullptr) [[likely]] {
      from.free = block->next;
      // Its link is read next time: from memory that was used last by somebody else, maybe.
      __builtin_prefetch(from.free, 1);
      ++from.count;
      return block;
    }
    std::byte* const fresh = from.fresh;
    if (fresh == from.fresh_until) [[unlikely]]
      return nullptr;
    from.fresh = fresh + from.stride;
    ++from.count;
    zeroed = from.zeroed;
    return fresh;
  }
  __attribute__((always_inline)) void push(region& r, void* block) noexcept {
    auto* const freed = static_cast<free_block*>(block);
    free_block* const before = r.free;
    // The one that came last, again. Others that are free would have to be looked for.
    if (freed == before) [[unlikely]]
      came_twice(block);
    freed->next = before;
    // A copy of the process may be made between any two instructions: the list is whole at each.
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

  [[noreturn]] static void came_twice(const void* block) noexcept;
  void counted_down(region& r) noexcept;
  void link(region& r) noexcept;
  void unlink(region& r) noexcept;
  void release(region& r) noexcept;
  static void splice(region& r, pushed_blocks list) noexcept;
  void collect_untold(region& r) noexcept;
  void used_up(region& r) noexcept;
  void own(region& r) noexcept;
  void offer(region& r) noexcept;
  void pushed_first(region& r) noexcept;
  void keep_aside(region& r, void* block) noexcept;
  [[nodiscard]] static void* taken_from_aside(class_regions& of) noexcept;
  void give_back_aside(class_regions& of) noexcept;
  void listen() noexcept;
  void heard_of(region& r) noexcept;
  class_regions& list_of(const region& r) noexcept {
    return (r.use == region_use::aligned ? aligned_ : plain_)[r.size_class];
  }

  std::array<region*, granules> by_granules_{};
  std::array<class_regions, index_class::count> plain_{};
  std::array<class_regions, index_class::count> aligned_{};
  heap_commons& commons_;
  std::atomic<bool> busy_{false};
  // Others write these.
  alignas(128) std::atomic<region*> told_{nullptr};
  std::atomic<std::uint32_t> unheard_{0};  // regions in that, about
};

/// Bytes of a block that may be used, at least those asked for; 0 for null, and for blocks of other allocators.
[[nodiscard]] std::size_t usable_bytes(const address_registry& registry, void* block) noexcept;

}  // namespace espalier::preload
