#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "espalier/memory/index_class.hpp"
#include "espalier/memory/index_colour.hpp"
#include "preload/heap/address_registry.hpp"
#include "preload/heap/large_blocks.hpp"
#include "preload/heap/page_source.hpp"
#include "preload/heap/span_pool.hpp"

namespace espalier::preload {

/// What the threads' heaps share: regions, large blocks, and the colours at which runs begin. Any thread.
struct heap_commons {
  explicit constexpr heap_commons(address_registry& of_addresses) noexcept
      : registry(of_addresses), spans(of_addresses, pages), large(of_addresses, pages, spans) {}

  /// Where the first run of a thread's heap in a class begins.
  [[nodiscard]] std::size_t first_index(std::size_t size_class) noexcept {
    return index_colour::first_index(starts_[size_class].fetch_add(1, std::memory_order_relaxed), size_class);
  }
  /// On which page of its region the next run begins.
  [[nodiscard]] std::size_t next_page() noexcept {
    return index_colour::page_of(runs_.fetch_add(1, std::memory_order_relaxed));
  }

  address_registry& registry;
  page_source pages;
  span_pool spans;
  large_blocks large;
  /// The pages of a run are had when it begins, so that no transaction meets one that is not there.
  bool prefault = false;
  /// How many regions a heap may have been told of without looking, before others keep for themselves what they would
  /// tell it of.
  std::uint32_t patience = 8;

 private:
  // relaxed throughout: they spread, and order nothing.
  std::array<std::atomic<std::uint32_t>, index_class::count> starts_{};
  std::atomic<std::uint32_t> runs_{0};
};

}  // namespace espalier::preload
