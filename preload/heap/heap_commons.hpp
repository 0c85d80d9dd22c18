#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "espalier/memory/index_class.hpp"
#include "preload/heap/address_registry.hpp"
#include "preload/heap/large_blocks.hpp"
#include "preload/heap/page_source.hpp"
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

}  // namespace espalier::preload
