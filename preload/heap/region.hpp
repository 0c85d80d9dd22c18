#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "preload/heap/address_registry.hpp"
#include "preload/heap/block_geometry.hpp"

namespace espalier::preload {

class thread_heap;

/// What a block holds while it is free.
struct free_block {
  free_block* next;
};

enum class region_use : std::uint8_t {
  unused,   ///< in the pool, or within a large block
  blocks,   ///< of one class
  aligned,  ///< of one class, each with a block of stricter alignment in it
  large,    ///< a block that has this region, and maybe others behind it, to itself
};

enum class region_state : std::uint8_t {
  current,    ///< its owner allocates here
  with_room,  ///< in its owner's list
  full,       ///< in no list, and nobody's, unless somebody is about to tell of it
  leaving,    ///< empty, but somebody is about to tell of it
};

/// The blocks of a region that others gave back, newest first, in one word: where the list begins and ends and how
/// many there are, so that whoever takes them touches none. The lowest bit says that who pushes next has to tell.
class pushed_blocks {
 public:
  constexpr explicit pushed_blocks(std::uint64_t word) noexcept : word_(word) {}

  static constexpr std::uint64_t tell_bit = 1;

  [[nodiscard]] constexpr bool tells() const noexcept { return (word_ & tell_bit) != 0; }
  [[nodiscard]] constexpr std::uint32_t count() const noexcept { return bits(count_at); }
  /// Where the newest and the oldest lie in their region, if there are any.
  [[nodiscard]] constexpr std::size_t newest() const noexcept { return bits(newest_at) * unit; }
  [[nodiscard]] constexpr std::size_t oldest() const noexcept { return bits(oldest_at) * unit; }

  /// The word with one more, and nobody to be told.
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

/// What is known of 256 KiB of a span. Apart from the blocks: that of all regions of a span lies in 16 KiB, for the
/// sake of the TLB, and empty regions have no memory. The first line is the owner's.
///
/// Others who give blocks back push them onto `remote`. While the region is not current, the bit of that word is set
/// again and again: whoever clears it, by pushing, tells the owner (thread_heap::tell()), once.
///
/// A full region that nobody is about to tell of has no owner. Whoever gives its first block back, and so clears the
/// bit, has it to himself: to own, or to tell `home` of.
struct alignas(128) region {
  /// Who may give a block back with no further question; nobody's for aligned and large blocks. A heap alone enters
  /// itself here, and takes itself out: whoever reads himself is the owner.
  std::atomic<thread_heap*> quick_owner;
  free_block* free;
  /// Blocks handed out, and one more while current. While full and owned it is 1, and the others are hidden: that the
  /// next one comes back is then noticed by the same comparison that notices the last one.
  std::uint32_t count;
  std::uint32_t hidden;
  std::byte* fresh;            ///< the next block never handed out
  std::byte* fresh_until;      ///< where a line is left out, or the run ends
  std::uint32_t fresh_behind;  ///< blocks of the run behind that
  std::uint32_t stride;
  std::byte* first;  ///< where the run, or the large block, begins
  std::uint8_t size_class;
  region_use use;
  region_state state;
  bool zeroed;            ///< what was never handed out is zero
  bool told_when_pushed;  ///< the owner set the bit of `remote`
  bool telling;           ///< somebody cleared it, and has yet to be heard

  alignas(64) std::atomic<std::uint64_t> remote;  ///< pushed_blocks
  std::atomic<thread_heap*> owner;                ///< null where there is none; written as quick_owner is
  std::atomic<thread_heap*> home;                 ///< the last owner, of a region that has none
  region* next_told;
  region* next;
  region* before;
  std::size_t bytes;  ///< of a large block
  std::uint32_t run;  ///< of a large block: the number of its first region
  std::uint32_t run_regions;

  [[nodiscard]] std::uint32_t live() const noexcept {
    return count + hidden - (state == region_state::current ? 1 : 0);
  }
  /// The block in which an address of the run lies; the first one for an address before it.
  [[nodiscard]] std::byte* start_of(const void* address) const noexcept {
    const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(address) - first);
    // Before the first block the offset is beyond every region.
    return first + (offset < region_bytes ? geometries[size_class].start_of(offset) : 0);
  }
};
static_assert(sizeof(region) == 128 && offsetof(region, remote) == 64);

/// 32 MiB at a multiple of that: what is known of its regions, in place of the first one, and the regions. Fewer where the
/// system refuses so many addresses at once; what lies behind them in the 32 MiB is not the heap's.
struct span {
  static constexpr std::size_t bytes = address_registry::unit_bytes;
  static constexpr std::size_t slots = bytes / region_bytes;

  __extension__ typedef unsigned __int128 set;  // of regions; bit 0 is never in it

  span* next;
  set free;
  set dirty;           ///< of the free ones: those that may have memory and may not be zero
  set mapping_starts;  ///< where one mapping of the kernel's ends and another begins: memory was transferred
  std::size_t end;     ///< the number of the first region that it does not have
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

/// What is known of the region in which an address of a span lies. Of the span's first 256 KiB it is the span
/// itself: nobody's, whatever is asked.
[[nodiscard]] inline region* region_of(std::size_t unit, const void* address) noexcept {
  const std::size_t in_span = reinterpret_cast<std::uintptr_t>(address) & (span::bytes - 1);
  return reinterpret_cast<region*>((unit << address_registry::unit_bits) +
                                   in_span / region_bytes * sizeof(region));
}
[[nodiscard]] inline region* region_of(const void* address) noexcept {
  return region_of(reinterpret_cast<std::uintptr_t>(address) >> address_registry::unit_bits, address);
}

/// What an address is to the heap. Behind the end of a span it is another mapping's, if any.
[[nodiscard]] inline address_registry::kind kind_of(const address_registry& registry,
                                                    const void* address) noexcept {
  const address_registry::kind kind = registry.of(address);
  // What is known of a region in use is read anyway.
  if (kind != address_registry::span || region_of(address)->use != region_use::unused) return kind;
  const std::size_t in_span = reinterpret_cast<std::uintptr_t>(address) & (span::bytes - 1);
  return in_span < span::of(address)->mapped_bytes() ? kind : address_registry::foreign;
}

}  // namespace espalier::preload
