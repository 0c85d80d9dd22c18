#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "espalier/cache/entry.hpp"
#include "espalier/cache/entry_log.hpp"
#include "espalier/hw/pages.hpp"
#include "espalier/sync/ttas_lock.hpp"

// The memory of large entries: runs of kibibytes after the segments of the log, one run ("extent") an entry. A free extent
// keeps its memory for the next one, and is joined with its free neighbours; the budget counts it until it is discarded, in
// whole pages. A search
// for a free extent is constant: lists by size, eight to a doubling, and a bit for each list that has one (TLSF: Masmano et
// al., ECRTS 2004).
//
// Extents that hold entries form the two queues of evictions, by age. An entry that proves worth it changes its queue in place:
// nothing is copied.
//
// Any thread may call anything: one lock guards it all, but for holds. A hold keeps an extent after its entry is gone.
//
// Orderings
//   (1) drop (acq_rel): what the last holder has read is read before the extent is used again.

namespace espalier::caching {

class extents {
 public:
  static constexpr std::uint32_t none = 0xFFFF'FFFFU;
  /// Indexes and sizes count these.
  static constexpr std::size_t unit_bytes = 1024;
  /// The start of an extent, before its entry.
  struct header {
    std::uint32_t units = 0;
    std::atomic<std::uint32_t> holds{0};
    std::uint32_t older = none;
    std::uint32_t newer = none;
    std::uint64_t age = 0;
    queue in = queue::fresh;
    bool is_listed = false;
    std::uint16_t entry_at = 0;  ///< bytes from the start of the extent to its entry
  };
  static constexpr std::size_t header_bytes = 32;
  static_assert(sizeof(header) <= header_bytes);

  /// `begin` is the memory, a multiple of a page, from its start on. Throws std::bad_alloc.
  extents(memory_budget& budget, std::byte* begin, std::size_t bytes);

  /// Address space for so much memory: free extents that are too small for what is wanted lie between others.
  [[nodiscard]] static std::size_t address_bytes(std::size_t limit) noexcept {
    return hw::whole_pages(limit + limit / 4);
  }

  [[nodiscard]] header& operator[](std::uint32_t index) const noexcept {
    return *std::launder(reinterpret_cast<header*>(at(index)));
  }
  [[nodiscard]] std::byte* at(std::uint32_t index) const noexcept { return begin_ + index * unit_bytes; }
  [[nodiscard]] bool contains(const std::byte* at) const noexcept {
    return at >= begin_ && at < begin_ + count_ * unit_bytes;
  }
  [[nodiscard]] std::uint32_t index_of(const void* inside_first_unit) const noexcept {
    return static_cast<std::uint32_t>(
        static_cast<std::size_t>(static_cast<const std::byte*>(inside_first_unit) - begin_) / unit_bytes);
  }
  /// Of an extent for this number of bytes after its header.
  [[nodiscard]] std::size_t bytes_for(std::size_t bytes) const noexcept {
    return (bytes + header_bytes + unit_bytes - 1) / unit_bytes * unit_bytes;
  }
  [[nodiscard]] std::size_t bytes_of(std::uint32_t index) const noexcept {
    return (*this)[index].units * unit_bytes;
  }

  /// An extent with one hold, in no queue. none: it needs memory that the budget does not have.
  [[nodiscard]] std::uint32_t allocate(std::size_t bytes) noexcept;
  /// Returns the memory of free extents to the OS until the budget has room for that number of bytes. False: not enough.
  bool discard_for(std::size_t bytes) noexcept;
  /// Memory of free extents.
  [[nodiscard]] std::size_t free_bytes() const noexcept {
    return free_backed_.load(std::memory_order_relaxed) * unit_bytes;  // relaxed: a count
  }

  /// One more hold of an extent that the caller knows to be held.
  void hold(std::uint32_t index) const noexcept {
    (*this)[index].holds.fetch_add(1, std::memory_order_relaxed);  // relaxed: as for any count of references
  }
  /// The last one frees the extent.
  void drop(std::uint32_t index) noexcept;

  /// Into a queue, as its newest.
  void list(std::uint32_t index, queue in, std::uint64_t age) noexcept;
  void unlist(std::uint32_t index) noexcept;
  /// The oldest of a queue and its age. It may leave the queue at once: an epoch keeps it readable.
  struct candidate {
    std::uint32_t index = none;
    std::uint64_t age = 0;
  };
  [[nodiscard]] candidate oldest(queue in) noexcept;
  /// The next one after it that is of the same queue; none if it has left.
  [[nodiscard]] candidate newer(std::uint32_t index, queue in) noexcept;
  [[nodiscard]] std::size_t listed_bytes(queue in) const noexcept {
    // relaxed: a count
    return orders_[static_cast<std::size_t>(in)].units.load(std::memory_order_relaxed) * unit_bytes;
  }

 private:
  struct order {
    std::uint32_t oldest = none;
    std::uint32_t newest = none;
    std::atomic<std::size_t> units{0};
  };
  /// The unit at either end of a free extent.
  struct free_end {
    std::uint32_t units = 0;  ///< 0: the unit is not one
    std::uint32_t before = none;
    std::uint32_t behind = none;  ///< in the list of its size; known at its first unit
  };

  static constexpr unsigned steps = 8;
  static constexpr unsigned lists = 32 * steps;
  [[nodiscard]] static unsigned list_of(std::uint32_t units) noexcept;

  [[nodiscard]] std::uint32_t find(std::uint32_t units) const noexcept;
  void add_free(std::uint32_t first, std::uint32_t units) noexcept;
  void remove_free(std::uint32_t first) noexcept;
  void free(std::uint32_t first, std::uint32_t units) noexcept;
  [[nodiscard]] std::uint32_t backed_in(std::uint32_t first, std::uint32_t units) const noexcept;
  void set_backed(std::uint32_t first, std::uint32_t units, bool is) noexcept;

  memory_budget& budget_;
  std::byte* begin_;
  std::uint32_t count_;
  hw::page_run ends_pages_;
  hw::page_run backed_pages_;
  free_end* ends_;
  std::uint64_t* backed_;  // a bit for each unit: it has memory
  ttas_lock lock_;
  std::array<std::uint32_t, lists> free_;
  std::array<std::uint64_t, lists / 64> has_free_{};
  std::array<order, queues> orders_;
  std::atomic<std::size_t> free_backed_{0};
};

}  // namespace espalier::caching
