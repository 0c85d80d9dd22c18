#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/hw/pages.hpp"
#include "espalier/memory/placement_concept.hpp"
#include "espalier/sync/per_thread.hpp"

// The distance between consecutive blocks of one size: the size classes of common mallocs, as formulas of our own.

namespace espalier::app {

/// The common granule.
inline constexpr std::size_t malloc_granule = 16;

constexpr std::size_t rounded_up(std::size_t bytes, std::size_t multiple) noexcept {
  return (bytes + multiple - 1) / multiple * multiple;
}

/// glibc's: 8 bytes of its own before each block, rounded up to the granule; at least two granules.
constexpr std::size_t glibc_stride(std::size_t bytes) noexcept {
  return std::max(rounded_up(bytes + 8, malloc_granule), 2 * malloc_granule);
}

inline constexpr std::size_t fine_class_bytes = 128;
inline constexpr std::size_t classes_per_doubling = 4;

/// jemalloc's, and except for details those of tcmalloc and mimalloc: multiples of the granule up to fine_class_bytes,
/// then a fixed number of classes per doubling.
constexpr std::size_t size_class_stride(std::size_t bytes) noexcept {
  if (bytes <= fine_class_bytes) return std::max(rounded_up(bytes, malloc_granule), malloc_granule);
  return rounded_up(bytes, std::bit_floor(bytes - 1) / classes_per_doubling);
}

}  // namespace espalier::app

// Models of how common allocators lay blocks out. They are placements of our own that put blocks where those allocators
// would, at the same stride and from the same kind of beginning, and reuse them as their thread caches do. Other
// features of the allocators are omitted: no coalescing, no return of memory, no arenas that threads share. A
// simulation uses them instead of a real malloc, because its transactions undo what an allocation wrote. Instrumented
// there.
//
// Both: blocks of at most largest_bytes, aligned to 16; other requests throw std::bad_alloc, as if memory were
// exhausted. A freed block is the next of its size for the thread that freed it. O(1). Pages are mapped 64 MiB at a
// time, so that an allocation maps memory only if its thread has used all of those, and are unmapped with the model.

namespace espalier::simulate {

namespace model_detail {

inline constexpr std::size_t granule = app::malloc_granule;
inline constexpr std::size_t largest_bytes = std::size_t{20} << 10U;

/// Memory of one thread, handed out from the front; begins on a page.
class growing_memory {
 public:
  /// Takes `bytes`, such that `spared` more remain after them. Throws std::bad_alloc with nothing changed.
  [[nodiscard]] std::byte* take(std::size_t bytes, std::size_t spared = 0) {
    if (left() < bytes + spared) grow();
    taken_ += bytes;
    return std::exchange(next_, next_ + bytes);
  }
  /// Where the next bytes will be, and how many there are before it grows.
  [[nodiscard]] std::byte* next() const noexcept { return next_; }
  [[nodiscard]] std::size_t left() const noexcept { return static_cast<std::size_t>(end_ - next_); }
  [[nodiscard]] std::uint64_t taken() const noexcept { return taken_; }

 private:
  static constexpr std::size_t span_bytes = std::size_t{64} << 20U;

  void grow() {
    hw::page_run fresh = hw::map_pages(span_bytes);
    std::byte* const begin = fresh.data();
    spans_.push_back(std::move(fresh));
    next_ = begin;
    end_ = begin + span_bytes;
  }

  std::vector<hw::page_run> spans_;
  std::byte* next_ = nullptr;
  std::byte* end_ = nullptr;
  std::uint64_t taken_ = 0;
};

/// Freed blocks of one size, last in, first out.
class free_blocks {
 public:
  void push(void* memory) noexcept { first_ = ::new (memory) link{first_}; }
  /// Null if there is none.
  void* pop() noexcept {
    link* const top = first_;
    if (top != nullptr) first_ = top->next;
    return top;
  }

 private:
  struct link {
    link* next;
  };
  link* first_ = nullptr;
};

/// The bookkeeping of a model: each thread's memory and free blocks. A Layout defines the held size of blocks (stride,
/// and held_by for a freed one), numbers these sizes (place_of, below places) and cuts new blocks from a thread's
/// memory (cut, on a thread's own Layout).
template <class Layout>
class modelled_malloc {
 public:
  static constexpr bool releases_on_destruction = true;
  static constexpr std::string_view name = Layout::name;
  static constexpr std::size_t largest_bytes = model_detail::largest_bytes;

  /// The distance between consecutive blocks.
  [[nodiscard]] static constexpr std::size_t stride(std::size_t bytes) noexcept {
    return Layout::stride(bytes);
  }

  [[nodiscard]] void* allocate(const block& b, const void* /*near*/ = nullptr) {
    if (b.bytes > largest_bytes || b.align > granule) throw std::bad_alloc();
    part& mine = parts_.local();
    const std::size_t held = stride(b.bytes);
    void* memory = mine.free[Layout::place_of(held)].pop();
    if (memory == nullptr) memory = mine.layout.cut(mine.memory, held);
    ++mine.blocks;
    mine.bytes += static_cast<std::int64_t>(held);
    return memory;
  }

  void deallocate(void* memory, const block& b) noexcept {
    part& mine = parts_.local();
    const std::size_t held = Layout::held_by(memory, b);
    mine.free[Layout::place_of(held)].push(memory);
    --mine.blocks;
    mine.bytes -= static_cast<std::int64_t>(held);
  }

  [[nodiscard]] memory_usage usage() const noexcept {
    std::int64_t blocks = 0;
    std::int64_t bytes = 0;
    memory_usage sum;
    parts_.for_each([&](std::uint32_t, const part& t) {
      blocks += t.blocks;
      bytes += t.bytes;
      sum.bytes_reserved += t.memory.taken();
    });
    sum.blocks = static_cast<std::uint64_t>(blocks);
    sum.bytes_in_use = static_cast<std::uint64_t>(bytes);
    return sum;
  }

 private:
  struct part {
    growing_memory memory;
    std::array<free_blocks, Layout::places> free;
    // Of this thread alone: negative if it frees what other threads allocated.
    std::int64_t blocks = 0;
    std::int64_t bytes = 0;
    [[no_unique_address]] Layout layout;
  };

  per_thread<part> parts_;
};

class glibc_layout {
 public:
  static constexpr std::string_view name = "glibc_model";
  static constexpr std::size_t places = app::glibc_stride(largest_bytes) / granule + 1;

  static constexpr std::size_t stride(std::size_t bytes) noexcept { return app::glibc_stride(bytes); }
  static constexpr std::size_t place_of(std::size_t chunk) noexcept { return chunk / granule; }
  static std::size_t held_by(void* memory, const block& /*b*/) noexcept { return size_before(memory); }

  static void* cut(growing_memory& arena, std::size_t chunk) {
    // The last 8 bytes of a block are the first 8 of the next header, which always exists.
    std::byte* const memory = arena.take(chunk, header_bytes) + header_bytes;
    size_before(memory) = chunk;
    size_before(arena.next() + header_bytes) = arena.left();
    return memory;
  }

 private:
  static constexpr std::size_t header_bytes = 16;

  static std::uint64_t& size_before(void* memory) noexcept { return static_cast<std::uint64_t*>(memory)[-1]; }
};

class size_class_layout {
 public:
  static constexpr std::string_view name = "size_class_model";

  static constexpr std::size_t stride(std::size_t bytes) noexcept { return app::size_class_stride(bytes); }
  static constexpr std::size_t held_by(void* /*memory*/, const block& b) noexcept { return stride(b.bytes); }

  /// The number of a class, by the held size of its blocks.
  static constexpr std::size_t place_of(std::size_t held) noexcept {
    using namespace app;
    if (held <= fine_class_bytes) return held / granule - 1;
    const std::size_t below = std::bit_floor(held - 1);
    const auto doublings = static_cast<std::size_t>(std::bit_width(below) - std::bit_width(fine_class_bytes));
    return fine_class_bytes / granule + doublings * classes_per_doubling +
           (held - below) * classes_per_doubling / below - 1;
  }
  static constexpr std::size_t places = 37;

  void* cut(growing_memory& from, std::size_t held) {
    slab& mine = slabs_[place_of(held)];
    if (static_cast<std::size_t>(mine.end - mine.next) < held) {
      const std::size_t bytes = app::rounded_up(slab_blocks * held, page_bytes);
      mine.next = from.take(bytes);
      mine.end = mine.next + bytes;
    }
    return std::exchange(mine.next, mine.next + held);
  }

 private:
  static constexpr std::size_t slab_blocks = 64;
  static constexpr std::size_t page_bytes = 4096;

  struct slab {
    std::byte* next = nullptr;
    std::byte* end = nullptr;
  };
  std::array<slab, places> slabs_{};
};
static_assert(size_class_layout::places == size_class_layout::place_of(largest_bytes) + 1);

}  // namespace model_detail

/// Modelled on glibc's malloc: contiguous chunks, each with a header of 16 bytes before the block. The first 8 bytes of
/// a header belong to the previous block. So blocks requested with 64 k - 16 bytes follow one another at 64 k, and
/// begin 16 bytes into a line. A new chunk is cut from the remainder of the thread's arena, and the sizes of both are
/// written into their headers, where a free reads them. Freed chunks are kept by size, like those of the thread cache;
/// the model assumes that the cache holds any number of any size.
using glibc_model = model_detail::modelled_malloc<model_detail::glibc_layout>;
static_assert(placement<glibc_model>);

/// Modelled on jemalloc, tcmalloc and mimalloc: multiples of 16 bytes up to 128, then four classes per doubling. Blocks
/// of a class are contiguous in slabs that begin on a page and hold at least 64; metadata lies elsewhere.
using size_class_model = model_detail::modelled_malloc<model_detail::size_class_layout>;
static_assert(placement<size_class_model>);

}  // namespace espalier::simulate
