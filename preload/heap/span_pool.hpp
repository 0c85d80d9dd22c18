#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "preload/heap/address_registry.hpp"
#include "preload/heap/page_source.hpp"
#include "preload/heap/region.hpp"
#include "preload/recording/futex_lock.hpp"

namespace espalier::preload {

/// Regions, by themselves and in rows, out of spans. Empty regions keep their memory up to a bound, and beyond it for
/// a while: what no thread asked for in a whole period goes back to the system with the next call. They are taken again
/// first; empty spans keep their addresses until discard_empty(). Any thread; a lock and a search of the spans' sets for
/// each.
///
/// Long rows seldom lie where there is memory in all of their regions. Those that have none get that of other empty
/// regions, by moving pages: some 30 times as fast as having the system zero new ones. When a long
/// row is freed, empty memory beyond the bound and most_behind_rows is returned to the system at once.
class span_pool {
 public:
  constexpr span_pool(address_registry& registry, page_source& pages) noexcept
      : registry_(registry), pages_(pages) {}
  span_pool(const span_pool&) = delete;
  span_pool& operator=(const span_pool&) = delete;

  static constexpr std::size_t most_regions = span::slots - 1;
  /// Rows of so many regions are long.
  static constexpr std::size_t long_row = 8;

  /// Bytes of empty regions that keep their memory for ever.
  void set_keep(std::size_t bytes) noexcept { keep_ = bytes / region_bytes; }
  /// For how long others do. 0: not at all.
  void set_period(std::uint64_t milliseconds) noexcept { period_ = milliseconds; }
  void set_huge(bool wanted) noexcept { huge_ = wanted; }

  /// So many regions in a row, at most most_regions; null where there is no memory. `zeroed` says whether all bytes
  /// are zero.
  [[nodiscard]] region* take(std::size_t regions, bool& zeroed) noexcept;
  /// Adds the regions behind a row to it if they are free.
  [[nodiscard]] bool extend(region& first, std::size_t regions, std::size_t by) noexcept;
  void give_back(region& first, std::size_t regions) noexcept;

  /// Returns the addresses of empty spans to the system, and the memory of all other empty regions; bytes of the regions
  /// that had memory. What the system refuses to take, such as locked memory, stays.
  std::size_t discard_empty() noexcept;

  struct figures {
    std::size_t spans = 0;
    std::size_t free_regions = 0;
    std::size_t kept_regions = 0;  ///< free, with memory
  };
  [[nodiscard]] figures count() noexcept;
  /// The caller has the lock.
  [[nodiscard]] figures count_locked() const noexcept;

  /// All regions in use. The caller has the lock: nothing may be taken or given back.
  template <class Visitor>
  void for_each_locked(Visitor&& visitor) noexcept {
    for (span* s = spans_; s != nullptr; s = s->next) {
      for (std::size_t number = 1; number < s->end; ++number) {
        if ((s->free >> number & 1) == 0 && s->slot(number).use != region_use::unused)
          visitor(s->slot(number));
      }
    }
  }

  /// For tests: nothing of it may be used any more.
  void unmap_all() noexcept;

  [[nodiscard]] futex_lock& lock() noexcept { return lock_; }

 private:
  static constexpr std::size_t bounding_row = (std::size_t{4} << 20U) / region_bytes;
  static constexpr std::size_t most_behind_rows = (std::size_t{16} << 20U) / region_bytes;
  // Of all spans. The kernel has room for 65530 mappings of a process.
  static constexpr std::size_t most_mapping_starts = 8192;

  region* find(std::size_t regions, bool& zeroed) noexcept;
  region* find_long(std::size_t regions, bool& zeroed, span::set& wanting) noexcept;
  [[nodiscard]] region* take_donors(std::size_t regions) noexcept;
  [[nodiscard]] bool fill(region& first, std::size_t regions, span::set wanting, region* donors,
                          bool& zeroed) noexcept;
  void discard(std::size_t regions) noexcept;
  region* take_from(span& s, std::size_t number, std::size_t regions, bool& zeroed) noexcept;
  bool add_span(std::size_t regions) noexcept;
  void discard_idle() noexcept;
  void set_dirty(std::size_t regions) noexcept;
  void add_free(region& first, std::size_t regions, bool dirty) noexcept;
  std::size_t unmap_empty() noexcept;

  address_registry& registry_;
  page_source& pages_;
  futex_lock lock_;
  span* spans_ = nullptr;
  std::size_t keep_ = 0;
  bool huge_ = false;
  std::uint64_t period_ = 0;
  std::size_t free_ = 0;
  std::size_t mapping_starts_ = 0;
  std::atomic<std::size_t> dirty_{0};  // written under the lock
  // So many regions had memory all the time since then.
  std::size_t idle_ = 0;
  std::uint64_t idle_since_ = 0;
};

}  // namespace espalier::preload
