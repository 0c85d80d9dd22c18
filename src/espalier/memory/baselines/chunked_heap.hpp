#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string_view>
#include <utility>

#include "espalier/hw/cache_line.hpp"
#include "espalier/hw/pages.hpp"
#include "espalier/memory/parts/page_blocks.hpp"
#include "espalier/memory/placement_concept.hpp"
#include "espalier/sync/per_thread.hpp"

namespace espalier {

/// One heap for all roles, as the ATC 2018 study describes the jemalloc of its time (sections 3.2.1 and 4.3.3): each thread has
/// size classes, and a bank of memory in a huge page, which it divides into chunks of 4 KiB. A class whose chunk is full takes
/// the next one of the bank. So blocks of one class that a thread allocates in a row lie end to end, and the chunks of a class lie
/// apart where other classes take chunks meanwhile. The study does not say where the allocator kept its own data; here a line at
/// the front of each chunk is its own, as in jemalloc 3. With it 63 blocks of 64 bytes fit a chunk. For studies of such effects.
///
/// Blocks up to 2 KiB have classes. A freed block is the next of its class for the thread that freed it. Chunks return to the OS
/// with the heap; a larger block has pages of its own.
class chunked_heap {
 public:
  static constexpr bool releases_on_destruction = true;
  static constexpr std::string_view name = "chunked_heap";
  static constexpr std::size_t chunk_bytes = 4096;

  chunked_heap() = default;
  chunked_heap(const chunked_heap&) = delete;
  chunked_heap& operator=(const chunked_heap&) = delete;
  ~chunked_heap() {
    // relaxed: no other thread uses an object that is being destroyed.
    for (bank* b = banks_.load(std::memory_order_relaxed); b != nullptr;) {
      bank* const older = b->older;
      // The bank lies in the pages that it owns.
      const hw::page_run pages = std::move(b->pages);
      b = older;
    }
  }

  [[nodiscard]] void* allocate(const block& b, const void* = nullptr) {
    const std::size_t c = class_of(b);
    if (c == class_bytes.size()) return large_.allocate(b.bytes, std::max(b.align, hw::cache_line_bytes));
    part& mine = parts_.local();
    blocks& here = mine.classes[c];
    void* memory = here.freed;
    if (memory != nullptr) {
      here.freed = here.freed->next;
    } else {
      if (static_cast<std::size_t>(here.end - here.next) < class_bytes[c]) refill(mine, here, class_bytes[c]);
      memory = std::exchange(here.next, here.next + class_bytes[c]);
    }
    count_.add(1);
    bytes_.add(static_cast<std::int64_t>(class_bytes[c]));
    return memory;
  }

  void deallocate(void* memory, const block& b) noexcept {
    const std::size_t c = class_of(b);
    if (c == class_bytes.size()) return large_.deallocate(memory);
    count_.add(-1);
    bytes_.add(-static_cast<std::int64_t>(class_bytes[c]));
    // Without memory for its part the thread loses the block until the heap ends.
    part* const mine = parts_.try_local();
    if (mine != nullptr) mine->classes[c].freed = ::new (memory) freed_block{mine->classes[c].freed};
  }

  [[nodiscard]] memory_usage usage() const noexcept {
    memory_usage sum = large_.usage();
    sum += {.blocks = static_cast<std::uint64_t>(count_.read()),
            .bytes_in_use = static_cast<std::uint64_t>(bytes_.read()),
            .bytes_reserved = static_cast<std::uint64_t>(chunks_.read()) * chunk_bytes};
    return sum;
  }

  [[nodiscard]] std::size_t bytes_held(const void* memory, const block& b) const noexcept {
    const std::size_t c = class_of(b);
    return c == class_bytes.size() ? large_.block_bytes(memory) : class_bytes[c];
  }

 private:
  /// Those of the study as far as blocks of 512 bytes.
  static constexpr std::array<std::size_t, 16> class_bytes{16,  32,  48,  64,  80,  96,  112,  128,
                                                           192, 256, 320, 384, 448, 512, 1024, 2048};
  static constexpr std::size_t bank_bytes = std::size_t{2} << 20U;
  static constexpr std::size_t header_bytes = hw::cache_line_bytes;

  /// class_bytes.size() for a block that has none. A chunk's blocks begin at a line: so each has the alignment by which its
  /// bytes can be divided, up to a line.
  [[nodiscard]] static std::size_t class_of(const block& b) noexcept {
    if (b.align > header_bytes) return class_bytes.size();
    std::size_t c = 0;
    while (c < class_bytes.size() && (class_bytes[c] < b.bytes || class_bytes[c] % b.align != 0)) ++c;
    return c;
  }

  struct freed_block {
    freed_block* next;
  };
  struct blocks {
    freed_block* freed = nullptr;
    std::byte* next = nullptr;
    std::byte* end = nullptr;
  };
  struct bank {
    hw::page_run pages;
    bank* older;
  };
  struct part {
    std::array<blocks, class_bytes.size()> classes;
    std::byte* next_chunk = nullptr;
    std::byte* bank_end = nullptr;

    /// In a child of fork(), where the thread may have stopped in the middle: it takes new chunks.
    void recover_in_child(bool lost) noexcept {
      if (lost) *this = {};
    }
  };

  void refill(part& mine, blocks& here, std::size_t bytes) {
    // Few of the larger blocks fit a chunk: they have four of them in a row.
    const std::size_t chunks = bytes <= 512 ? 1 : 4;
    if (static_cast<std::size_t>(mine.bank_end - mine.next_chunk) < chunks * chunk_bytes) add_bank(mine);
    std::byte* const first = std::exchange(mine.next_chunk, mine.next_chunk + chunks * chunk_bytes);
    here.next = first + header_bytes;
    here.end = first + chunks * chunk_bytes;
    chunks_.add(static_cast<std::int64_t>(chunks));
  }
  /// Its first chunk is the bank's own.
  void add_bank(part& mine) {
    hw::page_run pages = hw::map_pages(bank_bytes, {.huge = true});
    std::byte* const begin = pages.data();
    mine.next_chunk = begin + chunk_bytes;
    mine.bank_end = begin + pages.size();
    // relaxed, both: only the destructor follows the list, when no other thread uses the heap.
    bank* const fresh = ::new (begin) bank{std::move(pages), banks_.load(std::memory_order_relaxed)};
    while (!banks_.compare_exchange_weak(fresh->older, fresh, std::memory_order_relaxed)) {
    }
    chunks_.add(1);
  }

  per_thread<part> parts_;
  std::atomic<bank*> banks_{nullptr};
  page_blocks large_{std::size_t{4} << 20U};
  striped_counter count_;
  striped_counter bytes_;
  striped_counter chunks_;
};

/// An instance of it for each role: how the study separates a tree's nodes, its descriptors and the rest (section 4.1). Leaves are
/// nodes.
class chunked_heaps {
 public:
  static constexpr bool releases_on_destruction = true;
  static constexpr std::string_view name = "chunked_heaps";

  [[nodiscard]] void* allocate(const block& b, const void* = nullptr) { return of(b).allocate(b); }
  void deallocate(void* memory, const block& b) noexcept { of(b).deallocate(memory, b); }
  [[nodiscard]] memory_usage usage() const noexcept {
    memory_usage sum;
    for (const chunked_heap& one : by_role_) sum += one.usage();
    return sum;
  }
  [[nodiscard]] std::size_t bytes_held(const void* memory, const block& b) const noexcept {
    return by_role_[place_of(b)].bytes_held(memory, b);
  }

 private:
  [[nodiscard]] static constexpr std::size_t place_of(const block& b) noexcept {
    return static_cast<std::size_t>(b.role == memory_role::leaf ? memory_role::node : b.role);
  }
  [[nodiscard]] chunked_heap& of(const block& b) noexcept { return by_role_[place_of(b)]; }

  std::array<chunked_heap, memory_role_count> by_role_;
};

static_assert(placement<chunked_heap> && placement<chunked_heaps>);

}  // namespace espalier
