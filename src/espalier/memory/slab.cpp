#include "espalier/memory/slab.hpp"

#include <algorithm>
#include <cassert>
#include <memory>
#include <new>

#include "espalier/memory/poison.hpp"
#include "espalier/memory/size_class.hpp"
#include "espalier/sync/lock_concept.hpp"

namespace espalier {
namespace {

constexpr std::size_t first_span_bytes = std::size_t{64} << 10U;
constexpr std::size_t last_span_bytes = std::size_t{1} << 30U;
constexpr std::size_t huge_from_bytes = std::size_t{2} << 20U;
constexpr std::size_t smallest_run_bytes = std::size_t{4} << 10U;
constexpr std::size_t largest_run_bytes = std::size_t{64} << 10U;

}  // namespace

slab::slab(std::size_t block_bytes, side_table side)
    : block_bytes_(block_bytes), side_(side), next_span_bytes_(first_span_bytes) {
  assert(block_bytes >= size_class::smallest && block_bytes % size_class::granule == 0);
}

slab::~slab() {
  for (std::size_t i = 0; i < span_count_.load(std::memory_order_relaxed); ++i) {
    span* const one = spans_[i].load(std::memory_order_relaxed);
    // The address range may be mapped again by somebody else.
    unpoison(one->pages.data(), one->pages.size());
    delete one;
  }
}

void* slab::allocate() {
  cache& c = caches_.local();
  void* memory = nullptr;
  if (c.free != nullptr) {
    free_block* const b = c.free;
    unpoison(b, block_bytes_);
    c.free = b->next;
    --c.free_count;
    memory = b;
  } else if (c.fresh != c.fresh_end) {
    memory = c.fresh;
    c.fresh += block_bytes_;
    unpoison(memory, block_bytes_);
  } else {
    memory = allocate_slowly(c);
  }
  c.in_use.store(c.in_use.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  return memory;
}

void slab::deallocate(void* memory) noexcept {
  cache& c = caches_.local();
  auto* const b = static_cast<free_block*>(memory);
  b->next = c.free;
  poison(b, block_bytes_);
  c.free = b;
  c.in_use.store(c.in_use.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  if (++c.free_count >= 2 * batch) give_batch(c);
}

void slab::give_batch(cache& c) noexcept {
  free_block* const first = c.free;
  free_block* last = first;
  for (std::size_t i = 1; i < batch; ++i) {
    unpoison(last, block_bytes_);
    free_block* const next = last->next;
    poison(last, block_bytes_);
    last = next;
  }
  unpoison(last, block_bytes_);
  c.free = last->next;
  last->next = nullptr;
  poison(last, block_bytes_);
  c.free_count -= batch;

  const lock_guard hold(lock_);
  unpoison(first, block_bytes_);
  first->next_batch = batches_;
  poison(first, block_bytes_);
  batches_ = first;
}

void* slab::allocate_slowly(cache& c) {
  const lock_guard hold(lock_);
  if (batches_ != nullptr) {
    free_block* const first = batches_;
    unpoison(first, block_bytes_);
    batches_ = first->next_batch;
    c.free = first->next;
    c.free_count = batch - 1;
    return first;
  }
  // Runs grow with the slab: a small map does not tie up a large run in every thread.
  const std::size_t wanted =
      std::clamp(carved_bytes_.load(std::memory_order_relaxed) / 32, smallest_run_bytes, largest_run_bytes);
  const std::size_t run_bytes = std::max(wanted / block_bytes_, std::size_t{1}) * block_bytes_;
  if (static_cast<std::size_t>(span_end_ - span_next_) < run_bytes) add_span(run_bytes);
  std::byte* const run = span_next_;
  span_next_ += run_bytes;
  carved_bytes_.store(carved_bytes_.load(std::memory_order_relaxed) + run_bytes, std::memory_order_relaxed);
  c.fresh = run + block_bytes_;
  c.fresh_end = run + run_bytes;
  unpoison(run, block_bytes_);
  return run;
}

void slab::map_span(span& fresh, std::size_t bytes) const {
  hw::page_options options;
  options.huge = bytes >= huge_from_bytes;
  fresh.pages = hw::map_pages(bytes, options);
  if (side_ == side_table::one_byte) fresh.side = hw::map_pages(fresh.pages.size() / block_bytes_ + 1);
}

void slab::add_span(std::size_t run_bytes) {
  const std::size_t index = span_count_.load(std::memory_order_relaxed);
  if (index == most_spans) throw std::bad_alloc();
  auto fresh = std::make_unique<span>();
  // Where address space is short (a limit, strict overcommit), what is needed now may still be had.
  for (std::size_t bytes = std::max(next_span_bytes_, run_bytes); fresh->pages.data() == nullptr;
       bytes /= 2) {
    try {
      map_span(*fresh, bytes);
    } catch (const std::bad_alloc&) {
      fresh->pages = {};
      if (bytes / 2 < run_bytes) throw;
    }
  }
  poison(fresh->pages.data(), fresh->pages.size());
  span_next_ = fresh->pages.data();
  span_end_ = span_next_ + fresh->pages.size();
  next_span_bytes_ = std::min(fresh->pages.size() * 2, last_span_bytes);
  // order: add_span (release) -> side_byte (acquire)
  spans_[index].store(fresh.release(), std::memory_order_relaxed);
  span_count_.store(index + 1, std::memory_order_release);
}

std::atomic<std::uint8_t>* slab::side_byte(const void* address) const noexcept {
  const auto* const sought = static_cast<const std::byte*>(address);
  for (std::size_t i = span_count_.load(std::memory_order_acquire); i-- > 0;) {
    const span& one = *spans_[i].load(std::memory_order_relaxed);
    if (sought < one.pages.data() || sought >= one.pages.data() + one.pages.size()) continue;
    const auto index = static_cast<std::size_t>(sought - one.pages.data()) / block_bytes_;
    // The kernel's zeroed pages serve as implicitly created atomic bytes.
    return reinterpret_cast<std::atomic<std::uint8_t>*>(one.side.data()) + index;
  }
  return nullptr;
}

memory_usage slab::usage() const noexcept {
  std::int64_t blocks = 0;
  caches_.for_each(
      [&](std::uint32_t, const cache& c) { blocks += c.in_use.load(std::memory_order_relaxed); });
  memory_usage sum;
  sum.blocks = static_cast<std::uint64_t>(std::max<std::int64_t>(blocks, 0));
  sum.bytes_in_use = sum.blocks * block_bytes_;
  sum.bytes_reserved = carved_bytes_.load(std::memory_order_relaxed);
  return sum;
}

}  // namespace espalier
