#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <new>
#include <optional>
#include <string_view>

#include "espalier/hw/cache_line.hpp"
#include "espalier/hw/pages.hpp"
#include "espalier/memory/parts/made_once.hpp"
#include "espalier/memory/parts/page_blocks.hpp"
#include "espalier/memory/parts/size_class.hpp"
#include "espalier/memory/parts/slab.hpp"
#include "espalier/memory/placement_concept.hpp"

namespace espalier {

// Orderings
//   (1) take_first (acq_rel) -> take_first (acquire): a block from the heap follows the one before it.

/// One arena for each role of one map: no page, no line and no cache set is shared with blocks of another
/// kind (the remedy of ATC 2018, section 4.3, as a placement of its own rather than a use of jemalloc's
/// arenas). Blocks up to 2 MiB follow each other at the strides of size_class, in huge pages where the system provides
/// them; a larger block has pages of its own, huge ones likewise, and costs a system call. All memory returns to the OS when the map is
/// destroyed, blocks in use included.
///
/// The first block of a map comes from the heap if it has 1 to 4 KiB: for the leaf of a small map alone no arenas are
/// made.
class segregated {
 public:
  static constexpr bool releases_on_destruction = true;
  static constexpr std::string_view name = "segregated";

  segregated() = default;
  segregated(const segregated&) = delete;
  segregated& operator=(const segregated&) = delete;
  ~segregated() {
    // relaxed: no other thread uses an object that is being destroyed.
    ::operator delete(first_.load(std::memory_order_relaxed), alignment_of_first);
  }

  /// Alignments above 2 MiB throw std::bad_alloc.
  [[nodiscard]] void* allocate(const block& b, const void* = nullptr) {
    arenas* present = arenas_.get();
    if (present == nullptr) [[unlikely]] {
      if (void* const memory = take_first(b)) return memory;
      present = &arenas_.get_or_make();
    }
    if (!size_class::has(b.bytes, b.align)) [[unlikely]]
      return present->large.allocate(b.bytes, std::max(b.align, hw::cache_line_bytes));
    const place at = place_of(b);
    return present->slabs[at.group].get_or_make()[at.index].get_or_make(at.held).allocate();
  }

  void deallocate(void* memory, const block& b) noexcept {
    // relaxed: whether this is the block, no other thread changes.
    if (memory == first_.load(std::memory_order_relaxed)) [[unlikely]] {
      // order (1): take_first, acq_rel
      ::operator delete(first_.exchange(nullptr, std::memory_order_acq_rel), alignment_of_first);
      return;
    }
    arenas& all = *arenas_.get();
    if (!size_class::has(b.bytes, b.align)) [[unlikely]]
      return all.large.deallocate(memory);
    const place at = place_of(b);
    (*all.slabs[at.group].get())[at.index].get()->deallocate(memory);
  }

  [[nodiscard]] memory_usage usage() const noexcept {
    memory_usage sum;
    // relaxed, both: exact at quiescence.
    if (first_.load(std::memory_order_relaxed) != nullptr) {
      const std::size_t bytes = first_bytes_.load(std::memory_order_relaxed);
      sum += {.blocks = 1,
              .bytes_in_use = bytes,
              .bytes_reserved = hw::heap_bytes(bytes, static_cast<std::size_t>(alignment_of_first))};
    }
    const arenas* const all = arenas_.get();
    if (all == nullptr) return sum;
    sum += all->large.usage();
    sum.bytes_reserved += hw::heap_bytes<arenas>();
    for (const made_once<slab_group>& some : all->slabs) {
      const slab_group* const group = some.get();
      if (group == nullptr) continue;
      sum.bytes_reserved += hw::heap_bytes<slab_group>();
      for (const made_once<slab>& s : *group) {
        const slab* const one = s.get();
        if (one == nullptr) continue;
        sum += one->usage();
        sum.bytes_reserved += one->bytes_beside_blocks();
      }
    }
    return sum;
  }

  [[nodiscard]] std::size_t bytes_held(const void* memory, const block& b) const noexcept {
    return size_class::has(b.bytes, b.align) ? size_class::bytes_for(b.bytes, b.align)
                                             : arenas_.get()->large.block_bytes(memory);
  }

 private:
  // A map has blocks of few classes: those that are neighbours have a group, which is made with the first of them.
  static constexpr std::size_t together = 32;
  static constexpr std::size_t groups_of_role = (size_class::count + together - 1) / together;
  using slab_group = std::array<made_once<slab>, together>;
  struct arenas {
    std::array<made_once<slab_group>, memory_role_count * groups_of_role> slabs;
    page_blocks large{2 * size_class::largest, std::nullopt, true};
  };
  struct place {
    std::size_t held;
    std::size_t group;
    std::size_t index;
  };
  /// Of a block that has a class.
  [[nodiscard]] static constexpr place place_of(const block& b) noexcept {
    const std::size_t held = size_class::bytes_for(b.bytes, b.align);
    const std::size_t index = size_class::index_of(held);
    return {held, static_cast<std::size_t>(b.role) * groups_of_role + index / together, index % together};
  }

  static constexpr std::size_t first_least = std::size_t{1} << 10U;
  static constexpr std::size_t first_most = std::size_t{4} << 10U;
  static constexpr std::align_val_t alignment_of_first{hw::cache_line_bytes};

  /// The block from the heap, or null if it has another use, or is not for blocks like this one.
  [[nodiscard, gnu::noinline]] void* take_first(const block& b) {
    if (b.bytes < first_least || b.bytes > first_most || b.align > hw::cache_line_bytes) return nullptr;
    // relaxed: a hint.
    if (first_.load(std::memory_order_relaxed) != nullptr) return nullptr;
    const std::size_t held = size_class::bytes_for(b.bytes, b.align);
    void* const memory = ::operator new(held, alignment_of_first);
    void* none = nullptr;
    // order (1): take_first, acq_rel
    if (!first_.compare_exchange_strong(none, memory, std::memory_order_acq_rel, std::memory_order_acquire)) {
      ::operator delete(memory, alignment_of_first);
      return nullptr;
    }
    first_bytes_.store(held, std::memory_order_relaxed);  // relaxed: exact at quiescence
    return memory;
  }

  std::atomic<void*> first_{nullptr};
  std::atomic<std::size_t> first_bytes_{0};
  made_once<arenas> arenas_;
};

static_assert(placement<segregated>);

}  // namespace espalier
