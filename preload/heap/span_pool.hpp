#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "preload/heap/address_registry.hpp"
#include "preload/heap/page_source.hpp"
#include "preload/heap/region.hpp"
#include "preload/kernel/futex_lock.hpp"

namespace espalier::preload {

/// Regions from spans: single ones, and rows of consecutive ones. Empty regions keep their memory up to a bound, and
/// beyond it for a while: memory that no thread needed for a whole period is returned to the OS by the next call.
/// Regions with memory are taken first. Empty spans keep their addresses until discard_empty(). Any thread; each call
/// takes a lock and searches the spans' sets.
///
/// A long row seldom has memory in all of its regions. Those without memory get that of other empty regions, by
/// moving pages: some 30 times as fast as having the OS zero new ones. When a long row is freed, empty memory beyond
/// the bound and most_behind_rows is returned to the OS at once.
///
/// relaxed throughout: `dirty_` is written under the lock. A read without the lock compares it with a bound that may
/// be missed by a little.
class span_pool {
 public:
  constexpr span_pool(address_registry& registry, page_source& pages) noexcept
      : registry_(registry), pages_(pages) {}
  span_pool(const span_pool&) = delete;
  span_pool& operator=(const span_pool&) = delete;

  static constexpr std::size_t most_regions = span::slots - 1;
  /// Rows of at least so many regions are long.
  static constexpr std::size_t long_row = 8;

  /// Bytes of empty regions that keep their memory indefinitely.
  void set_keep(std::size_t bytes) noexcept { keep_ = bytes / region_bytes; }
  /// How long further empty regions keep their memory; 0: not at all.
  void set_period(std::uint64_t milliseconds) noexcept { period_ = milliseconds; }
  void set_huge(bool wanted) noexcept { huge_ = wanted; }

  /// A row of so many regions, at most most_regions; null where there is no memory. `zeroed` becomes true where all
  /// bytes are zero.
  [[nodiscard]] region* take(std::size_t regions, bool& zeroed) noexcept;
  /// Extends a row by the regions after it if they are free.
  [[nodiscard]] bool extend(region& first, std::size_t regions, std::size_t by) noexcept;
  void release(region& first, std::size_t regions) noexcept;

  /// Returns to the OS the addresses of empty spans and the memory of all other empty regions. The result is the
  /// bytes of regions that had memory. Memory that the OS does not take, such as locked memory, stays.
  std::size_t discard_empty() noexcept;

  struct figures {
    std::size_t spans = 0;
    std::size_t free_regions = 0;
    std::size_t dirty_regions = 0;  ///< free regions with memory
  };
  [[nodiscard]] figures count() noexcept;
  /// The caller holds the lock.
  [[nodiscard]] figures count_locked() const noexcept;

  /// Visits all regions in use. The caller holds the lock, so that none is taken or freed meanwhile.
  template <class Visitor>
  void for_each_locked(Visitor&& visitor) noexcept {
    for (span* s = spans_; s != nullptr; s = s->next) {
      for (std::size_t number = 1; number < s->end; ++number) {
        if ((s->free >> number & 1) == 0 && s->slot(number).use != region_use::unused)
          visitor(s->slot(number));
      }
    }
  }

  /// For tests: unmaps all spans; none may be used afterwards.
  void unmap_all() noexcept;

  [[nodiscard]] futex_lock& lock() noexcept { return lock_; }

 private:
  static constexpr std::size_t bounding_row = (std::size_t{4} << 20U) / region_bytes;
  static constexpr std::size_t most_behind_rows = (std::size_t{16} << 20U) / region_bytes;
  // The sum over all spans. The kernel allows 65530 mappings for a process.
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
  // The fewest regions that had memory at any time since idle_since_.
  std::size_t idle_ = 0;
  std::uint64_t idle_since_ = 0;
};

}  // namespace espalier::preload
