#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "preload/heap/address_registry.hpp"
#include "preload/heap/block_geometry.hpp"

namespace espalier::preload {

class thread_heap;

/// The contents of a free block.
struct free_block {
  free_block* next;
};

enum class region_use : std::uint8_t {
  unused,   ///< in the pool, or another region of a large block's row
  blocks,   ///< blocks of one class
  aligned,  ///< blocks of one class, each containing a block of stricter alignment
  large,    ///< the first region in which a large block lies
};

enum class region_state : std::uint8_t {
  current,    ///< its owner allocates here
  with_room,  ///< in its owner's list
  full,       ///< in no list; abandoned, unless a notification about it is pending
  leaving,    ///< empty, but a notification about it is pending
};

/// The remote free list of a region in one word: the blocks that other threads freed, newest first. The word
/// has the list's first and last block and its length, so the owner takes the list without touching a block.
/// The lowest bit means: the next thread to push must notify the owner.
class remote_free_list {
 public:
  constexpr explicit remote_free_list(std::uint64_t word) noexcept : word_(word) {}

  static constexpr std::uint64_t notify_bit = 1;

  [[nodiscard]] constexpr bool notifies() const noexcept { return (word_ & notify_bit) != 0; }
  [[nodiscard]] constexpr std::uint32_t count() const noexcept { return bits(count_at); }
  /// Offsets of the newest and oldest block in their region, valid if count() is not zero.
  [[nodiscard]] constexpr std::size_t newest() const noexcept { return bits(newest_at) * unit; }
  [[nodiscard]] constexpr std::size_t oldest() const noexcept { return bits(oldest_at) * unit; }

  /// The word with one block more and the notify bit clear.
  [[nodiscard]] constexpr std::uint64_t with(std::size_t offset) const noexcept {
    const std::uint64_t place = offset / unit;
    const std::uint64_t last = count() == 0 ? place : bits(oldest_at);
    return last << oldest_at | place << newest_at | std::uint64_t{count() + 1} << count_at;
  }

 private:
  static constexpr std::size_t unit = least_align;
  static constexpr unsigned count_at = 1;
  static constexpr unsigned newest_at = 16;
  static constexpr unsigned oldest_at = 32;
  static_assert(region_bytes / unit < std::size_t{1} << (newest_at - count_at));

  [[nodiscard]] constexpr std::uint32_t bits(unsigned at) const noexcept {
    return static_cast<std::uint32_t>(word_ >> at & (at == count_at ? 0x7fff : 0xffff));
  }

  std::uint64_t word_;
};

/// Metadata of one region, 256 KiB of a span. It lies apart from the blocks: the metadata of all regions of a span
/// share 16 KiB, which saves TLB entries, and empty regions need no memory. Only the owner writes the first cache line.
///
/// Other threads push the blocks that they free onto the remote free list, `remote`. While the region is not
/// current, its owner keeps the notify bit of that word set. The thread that clears the bit by its push
/// notifies the owner once (thread_heap::notify()).
///
/// A full region without a pending notification is abandoned. The thread that frees its first block clears the bit, and
/// has then exclusive access: it takes the region over, or notifies `home`. thread_heap.hpp has the orderings.
struct alignas(128) region {
  /// The heap that may free blocks here without further checks; null for aligned and large blocks. A heap
  /// alone stores itself here and removes itself: a heap that reads itself is the owner.
  std::atomic<thread_heap*> quick_owner;
  free_block* free;
  /// Blocks handed out, plus one while current. While full and owned it is 1, and the others are in
  /// `deferred`: one comparison then detects both the next free and the last one.
  std::uint32_t count;
  std::uint32_t deferred;
  std::byte* bump;           ///< the next bump-allocated block
  std::byte* bump_end;       ///< where bump allocation stops: at a line left out, or the end of the run
  std::uint32_t bump_after;  ///< blocks of the run after bump_end
  std::uint32_t stride;
  std::byte* first;  ///< start of the run, or of the large block
  std::uint8_t size_class;
  region_use use;
  region_state state;
  bool zeroed;              ///< memory that was never handed out is zero
  bool notify_when_pushed;  ///< the owner set the notify bit of `remote`
  bool notifying;           ///< another thread cleared the bit; its notification is pending

  alignas(64) std::atomic<std::uint64_t> remote;  ///< remote free list: remote_free_list
  std::atomic<thread_heap*> owner;                ///< null where abandoned; written as quick_owner is
  std::atomic<thread_heap*> home;                 ///< last owner of an abandoned region
  region* next_notified;
  region* next;
  region* before;
  std::size_t bytes;  ///< of a large block
  std::uint32_t run;  ///< of a large block: the number of its first region
  std::uint32_t run_regions;

  [[nodiscard]] std::uint32_t live() const noexcept {
    return count + deferred - (state == region_state::current ? 1 : 0);
  }
  /// The block that contains an address of the run; the first block for an address before the run.
  [[nodiscard]] std::byte* start_of(const void* address) const noexcept {
    const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(address) - first);
    // An address before the first block gives an offset beyond every region.
    return first + (offset < region_bytes ? geometries[size_class].start_of(offset) : 0);
  }
};
static_assert(sizeof(region) == 128 && offsetof(region, remote) == 64);

/// 32 MiB, aligned to their size: the metadata of the regions, in place of the first one, then the regions. It has
/// fewer regions where the OS refuses so many addresses at once; the rest of the 32 MiB is not the heap's.
struct span {
  static constexpr std::size_t bytes = address_registry::unit_bytes;
  static constexpr std::size_t slots = bytes / region_bytes;

  __extension__ typedef unsigned __int128 set;  // of regions; bit 0 is always clear

  span* next;
  set free;
  set dirty;           ///< free regions that may have memory and may not be zero
  set mapping_starts;  ///< where a mapping of the kernel ends and another begins: memory was transferred
  std::size_t end;     ///< the last region's number plus one
  alignas(128) region regions[slots - 1];

  [[nodiscard]] static span* of(const void* address) noexcept {
    return reinterpret_cast<span*>(reinterpret_cast<std::uintptr_t>(address) & ~(bytes - 1));
  }
  [[nodiscard]] std::size_t regions_held() const noexcept { return end - 1; }
  [[nodiscard]] std::size_t mapped_bytes() const noexcept { return end * region_bytes; }
  [[nodiscard]] region& slot(std::size_t number) noexcept { return regions[number - 1]; }
  [[nodiscard]] std::byte* memory(std::size_t number) noexcept {
    return reinterpret_cast<std::byte*>(this) + number * region_bytes;
  }
  [[nodiscard]] static std::size_t number_of(const region& r) noexcept {
    return (reinterpret_cast<std::uintptr_t>(&r) & (bytes - 1)) / sizeof(region);
  }
};
static_assert(offsetof(span, regions) == sizeof(region) && sizeof(span) <= region_bytes);

/// The metadata of the region that contains an address of a span. For the span's first 256 KiB that is the
/// span itself, whose first field is never a heap.
[[nodiscard]] inline region* region_of(std::size_t unit, const void* address) noexcept {
  const std::size_t in_span = reinterpret_cast<std::uintptr_t>(address) & (span::bytes - 1);
  return reinterpret_cast<region*>((unit << address_registry::unit_bits) +
                                   in_span / region_bytes * sizeof(region));
}
[[nodiscard]] inline region* region_of(const void* address) noexcept {
  return region_of(reinterpret_cast<std::uintptr_t>(address) >> address_registry::unit_bits, address);
}

/// Whether an address belongs to the heap. Addresses beyond the end of a span are foreign.
[[nodiscard]] inline address_registry::kind kind_of(const address_registry& registry,
                                                    const void* address) noexcept {
  const address_registry::kind kind = registry.of(address);
  // The caller reads the metadata of a region in use anyway.
  if (kind != address_registry::span || region_of(address)->use != region_use::unused) return kind;
  const std::size_t in_span = reinterpret_cast<std::uintptr_t>(address) & (span::bytes - 1);
  return in_span < span::of(address)->mapped_bytes() ? kind : address_registry::foreign;
}

}  // namespace espalier::preload
