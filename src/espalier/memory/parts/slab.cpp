#include "espalier/memory/parts/slab.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

#include "espalier/memory/parts/size_class.hpp"

namespace espalier {
namespace {

constexpr std::size_t first_span_bytes = std::size_t{64} << 10U;
constexpr std::size_t last_span_bytes = std::size_t{1} << 30U;
constexpr std::size_t least_to_reduce = std::size_t{8} << 20U;
constexpr std::size_t huge_from_bytes = std::size_t{2} << 20U;
constexpr std::size_t smallest_run_bytes = std::size_t{4} << 10U;
constexpr std::size_t largest_run_bytes = std::size_t{64} << 10U;
// After these bytes the indices of a cache repeat.
constexpr std::size_t index_bytes = std::size_t{4} << 10U;

}  // namespace

slab::slab(const split_block& shape, side_table side, std::optional<unsigned> numa_node)
    : shape_(shape),
      side_(side),
      numa_node_(numa_node),
      blocks_(shape.front_bytes),
      next_span_bytes_(shape.is_split() ? split_block::group_bytes : first_span_bytes) {
  assert(block_bytes() >= size_class::smallest && block_bytes() % size_class::granule == 0);
}

slab::~slab() {
  // relaxed: no other thread uses an object that is being destroyed.
  for (span* one = newest_.load(std::memory_order_relaxed); one != nullptr;) {
    // Other code may map the address range again.
    unpoison(one->pages.data(), one->pages.size());
    delete std::exchange(one, one->older);
  }
}

void slab::refill(end_to_end_run& fresh) {
  // Runs grow with the slab: a small map does not tie up a large run in every thread.
  // relaxed: only refill() writes it, in one thread at a time.
  const std::size_t wanted =
      std::clamp(carved_bytes_.load(std::memory_order_relaxed) / 32, smallest_run_bytes, largest_run_bytes);
  std::size_t run_bytes = std::max(wanted / block_bytes(), std::size_t{1}) * block_bytes();
  if (returned_ != nullptr) {
    std::byte* const begin = static_cast<std::byte*>(static_cast<void*>(returned_));
    unpoison(begin, sizeof(returned));
    const returned all = *returned_;
    poison(begin, sizeof(returned));
    returned_ = all.next;
    run_bytes = std::min(run_bytes, static_cast<std::size_t>(all.end - begin));
    fresh = {begin, begin + run_bytes, block_bytes()};
    if (fresh.end != all.end) add_returned(fresh.end, all.end);
  } else {
    if (const std::size_t left = room(); left < run_bytes) {
      // The rest of a group's fronts suffices.
      if (shape_.is_split() && left != 0)
        run_bytes = left;
      else
        add_span(run_bytes);
    }
    fresh = {span_next_, span_next_ + run_bytes, block_bytes()};
    span_next_ += run_bytes;
  }
  // relaxed: as above; usage() is exact at quiescence.
  carved_bytes_.store(carved_bytes_.load(std::memory_order_relaxed) + run_bytes, std::memory_order_relaxed);
}

void slab::add_returned(std::byte* begin, std::byte* end) noexcept {
  unpoison(begin, sizeof(returned));
  returned_ = ::new (begin) returned{returned_, end};
  poison(begin, sizeof(returned));
}

/// After a batch of deallocations: returns the memory of stretches without a block in use, if most are free. A stretch is
/// one of about 2 MiB, or several in a row.
void slab::reduce() noexcept {
  // relaxed throughout: written under the lock of blocks_, or only by refill(), which runs under it.
  freed_since_look_ += blocks_.batch_bytes();
  if (freed_since_look_ < std::max(least_to_reduce, blocks_.bytes_in_batches() / 2)) return;
  const std::size_t in_use = carved_bytes_.load(std::memory_order_relaxed) - blocks_.bytes_in_batches();
  if (shape_.is_split() || blocks_.bytes_in_batches() < in_use) return;
  // The next look comes after half as many deallocations as this one goes through.
  freed_since_look_ = 0;

  const std::size_t in_stretch = std::max(huge_from_bytes / block_bytes(), std::size_t{1});
  const std::size_t stretch_bytes = in_stretch * block_bytes();
  span* const spans = newest_.load(std::memory_order_relaxed);
  const auto stretches_of = [&](const span& one) {
    return static_cast<std::size_t>(one.end() - one.begin) / stretch_bytes;
  };
  std::size_t stretches = 0;
  for (const span* one = spans; one != nullptr; one = one->older) stretches += stretches_of(*one);
  // The free blocks of each stretch, the newest span first.
  const std::unique_ptr<std::uint32_t[]> free(new (std::nothrow) std::uint32_t[stretches + 1]());
  if (free == nullptr) return;
  // That of blocks behind the last whole stretch of a span is never free.
  const auto stretch_of = [&](const std::byte* b) -> std::uint32_t& {
    std::size_t first = 0;
    for (const span* one = spans; one != nullptr; first += stretches_of(*one), one = one->older) {
      if (b < one->begin || b >= one->end()) continue;
      const std::size_t n = static_cast<std::size_t>(b - one->begin) / stretch_bytes;
      if (n < stretches_of(*one)) return free[first + n];
      break;
    }
    return free[stretches];
  };
  blocks_.visit_batches([&](const std::byte* b) { ++stretch_of(b); });
  free[stretches] = 0;
  const auto is_free = [&](std::uint32_t blocks) { return blocks == in_stretch; };
  if (std::none_of(free.get(), free.get() + stretches, is_free)) return;
  blocks_.remove_free([&](const std::byte* b) { return is_free(stretch_of(b)); });

  std::size_t first = 0;
  for (const span* one = spans; one != nullptr; first += stretches_of(*one), one = one->older) {
    const std::size_t last = first + stretches_of(*one);
    for (std::size_t n = first; n < last; ++n) {
      if (!is_free(free[n])) continue;
      std::byte* const begin = one->begin + (n - first) * stretch_bytes;
      while (n + 1 < last && is_free(free[n + 1])) ++n;
      std::byte* const end = one->begin + (n + 1 - first) * stretch_bytes;
      // All but the first page, which has the stretch's place in the list.
      const auto page_of = [](std::byte* at, std::size_t up) {
        const std::uintptr_t page = hw::page_size();
        return std::bit_cast<std::byte*>((std::bit_cast<std::uintptr_t>(at) + up) & ~(page - 1));
      };
      std::byte* const from = page_of(begin + sizeof(returned), hw::page_size() - 1);
      std::byte* const to = page_of(end, 0);
      if (from < to) hw::discard_pages(from, static_cast<std::size_t>(to - from));
      add_returned(begin, end);
      carved_bytes_.store(
          carved_bytes_.load(std::memory_order_relaxed) - static_cast<std::size_t>(end - begin),
          std::memory_order_relaxed);
    }
  }
}

/// Bytes of blocks that fit behind span_next_, which moves to the next group when one is full.
std::size_t slab::room() noexcept {
  const auto left = static_cast<std::size_t>(span_end_ - span_next_);
  if (left == 0 || !shape_.is_split()) return left;
  const std::size_t in_group = std::bit_cast<std::uintptr_t>(span_next_) % split_block::group_bytes;
  if (in_group < shape_.fronts_bytes()) return shape_.fronts_bytes() - in_group;
  span_next_ += split_block::group_bytes - in_group;
  return span_next_ == span_end_ ? 0 : shape_.fronts_bytes();
}

/// Whether the blocks of the next span continue the walk of the last ones over the indices of a cache: those of an odd
/// number of lines (size_class). A small span has few of them, and each would begin at the same index.
bool slab::keeps_index() const noexcept {
  return !shape_.is_split() && block_bytes() > size_class::fine_most &&
         block_bytes() / size_class::line % 2 == 1;
}

void slab::map_span(span& fresh, std::size_t bytes) const {
  hw::page_options options;
  // A single group does not justify a huge page: few of its blocks may ever be used.
  options.huge = shape_.is_split() ? bytes > huge_from_bytes : bytes >= huge_from_bytes;
  options.numa_node = numa_node_;
  const std::size_t align =
      shape_.is_split() ? split_block::group_bytes : block_bytes() & (~block_bytes() + 1);
  // Mappings begin on a page and, where huge ones were asked for, on one of those.
  const std::size_t given = options.huge ? hw::huge_page_size() : hw::page_size();
  fresh.pages = hw::map_pages(align > given ? bytes + align : bytes, options);
  fresh.begin = fresh.pages.data();
  if (align > given) fresh.begin += -std::bit_cast<std::uintptr_t>(fresh.begin) & (align - 1);
  if (side_ == side_table::one_byte) fresh.side = hw::map_pages(fresh.pages.size() / block_bytes() + 1);
}

void slab::add_span(std::size_t run_bytes) {
  auto fresh = std::make_unique<span>();
  const std::size_t offset = keeps_index() ? std::bit_cast<std::uintptr_t>(span_next_) % index_bytes : 0;
  // Where address space is short (a limit, strict overcommit), a smaller span may still be available.
  const std::size_t least = shape_.is_split() ? split_block::group_bytes : offset + run_bytes;
  for (std::size_t bytes = std::max(next_span_bytes_, least); fresh->pages.data() == nullptr; bytes /= 2) {
    try {
      map_span(*fresh, bytes);
    } catch (const std::bad_alloc&) {
      fresh->pages = {};
      if (bytes / 2 < least) throw;
    }
  }
  poison(fresh->pages.data(), fresh->pages.size());
  fresh->begin += offset;
  span_next_ = fresh->begin;
  span_end_ = fresh->end();
  if (shape_.is_split())
    span_end_ -= static_cast<std::size_t>(span_end_ - span_next_) % split_block::group_bytes;
  next_span_bytes_ = std::min(static_cast<std::size_t>(span_end_ - span_next_) * 2, last_span_bytes);
  // relaxed: only add_span() writes it, in one thread at a time.
  fresh->older = newest_.load(std::memory_order_relaxed);
  newest_.store(fresh.release(), std::memory_order_release);  // order (1): add_span, release
}

const slab::span* slab::span_of(const void* address) const noexcept {
  const auto* const sought = static_cast<const std::byte*>(address);
  // order (1): span_of, acquire
  for (const span* one = newest_.load(std::memory_order_acquire); one != nullptr; one = one->older) {
    if (sought >= one->begin && sought < one->end()) return one;
  }
  return nullptr;
}

std::atomic<std::uint8_t>* slab::side_byte(const void* address) const noexcept {
  const span* const one = span_of(address);
  if (one == nullptr) return nullptr;
  const auto index =
      static_cast<std::size_t>(static_cast<const std::byte*>(address) - one->begin) / block_bytes();
  // The kernel's zeroed pages serve as implicitly created atomic bytes.
  return reinterpret_cast<std::atomic<std::uint8_t>*>(one->side.data()) + index;
}

void slab::recover_in_child(const hw::fork_survivor& survivor) noexcept {
  // The open span may be half advanced: its rest is leaked, and the next refill adds another span.
  if (blocks_.recover_in_child(survivor, [](const end_to_end_run&) {})) {
    span_next_ = span_end_ = nullptr;
    returned_ = nullptr;
  }
}

memory_usage slab::usage() const noexcept {
  memory_usage sum;
  sum.blocks = blocks_.blocks_in_use();
  sum.bytes_in_use = sum.blocks * block_bytes();
  // relaxed: exact at quiescence
  sum.bytes_reserved = hw::whole_pages(carved_bytes_.load(std::memory_order_relaxed));
  return sum;
}

std::size_t slab::bytes_beside_blocks() const noexcept {
  std::size_t sum = hw::heap_bytes<slab>() + blocks_.bytes_beside_blocks();
  // order (1): span_of, acquire
  for (const span* one = newest_.load(std::memory_order_acquire); one != nullptr; one = one->older)
    sum += hw::heap_bytes<span>();
  return sum;
}

}  // namespace espalier
