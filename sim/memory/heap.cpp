#include "sim/memory/heap.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "sim/runtime/arena.hpp"
#include "sim/runtime/fibers.hpp"

namespace espalier::sim {
namespace {

constexpr std::size_t host_page_bytes = 4096;
constexpr std::size_t largest_class_bytes = 14336;
constexpr std::size_t run_bytes = 16384;
constexpr std::uint8_t large_class = 255;
// Fills new blocks under the policies that keep records: neither zero nor a plausible pointer.
constexpr int fresh_byte = 0xcb;

constexpr std::size_t round_up(std::size_t n, std::size_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

/// The size classes of common allocators: multiples of 16 up to 128, then four per doubling.
constexpr auto class_bytes = [] {
  std::array<std::size_t, 37> sizes{};
  std::size_t n = 0;
  sizes[n++] = 8;
  for (std::size_t s = 16; s <= 128; s += 16) sizes[n++] = s;
  for (std::size_t doubling = 128; doubling < largest_class_bytes; doubling *= 2)
    for (std::size_t i = 1; i <= 4 && n < sizes.size(); ++i) sizes[n++] = doubling + doubling / 4 * i;
  return sizes;
}();
static_assert(class_bytes.back() >= largest_class_bytes);

}  // namespace

block_event block_event::now(unsigned fiber, std::uint64_t step) noexcept {
  block_event e;
  e.happened = true;
  e.fiber = fiber;
  e.step = step;
  const call_stack& calls = *running_calls;
  std::size_t depth = std::min(calls.depth, most_frames);
  for (std::size_t i = 0; i < frames && depth != 0; ++i) e.callers[i] = calls.callers[--depth];
  return e;
}

heap::heap() {
  arena::reserve();
  // Clears what a previous heap has left: mapped pages are zero.
  madvise(reinterpret_cast<void*>(arena::pages), arena::pages_bytes, MADV_DONTNEED);
}

// One granule is left out, so that no block begins at the arena's edge.
std::uintptr_t heap::first() noexcept { return arena::heap + host_page_bytes; }

std::size_t heap::class_of(std::size_t bytes) noexcept {
  return static_cast<std::size_t>(std::lower_bound(class_bytes.begin(), class_bytes.end(), bytes) -
                                  class_bytes.begin());
}

void heap::reset(policy p) {
  policy_ = p;
  next_ = first();
  std::fill(owner_.begin(), owner_.end(), 0);
  blocks_.clear();
  free_.clear();
  plain_large_.clear();
  page_class_.clear();
  dirty_page_end_ = std::max(dirty_page_end_, next_page_);
  if (dirty_page_end_ > arena::pages) {
    // Dropping a large remainder is cheaper than clearing it.
    const std::size_t dirty = dirty_page_end_ - arena::pages;
    if (dirty > std::size_t{1} << 20U)
      madvise(reinterpret_cast<void*>(arena::pages), dirty, MADV_DONTNEED);
    else
      std::memset(reinterpret_cast<void*>(arena::pages), 0, dirty);
  }
  next_page_ = dirty_page_end_ = arena::pages;
}

void* heap::carve(std::size_t bytes, std::size_t align, std::size_t gap) {
  const std::uintptr_t at = round_up(next_, align);
  if (at + bytes + gap > arena::heap + arena::heap_bytes) return nullptr;
  next_ = at + bytes + gap;
  return reinterpret_cast<void*>(at);
}

void heap::remember(void* memory, std::size_t bytes, const block_event& by) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  blocks_.push_back({address, bytes, block_state::live, by, {}, {}});
  const auto index = static_cast<std::uint32_t>(blocks_.size());
  const std::size_t begin = (address - first()) / granule_bytes;
  const std::size_t end = (address + bytes - 1 - first()) / granule_bytes + 1;
  if (owner_.size() < end) owner_.resize(std::max(end, owner_.size() * 2), 0);
  std::fill(owner_.begin() + static_cast<std::ptrdiff_t>(begin),
            owner_.begin() + static_cast<std::ptrdiff_t>(end), index);
  std::memset(memory, fresh_byte, bytes);
}

void* heap::allocate(std::size_t bytes, std::size_t align, const block_event& by) {
  bytes = std::max<std::size_t>(bytes, 1);
  align = std::max<std::size_t>(align, granule_bytes);
  if (policy_ == policy::plain) {
    // A class has the alignment of a run divided into its blocks. A larger alignment uses the next class that has it.
    std::size_t c = class_of(align > granule_bytes ? round_up(bytes, align) : bytes);
    while (c < class_bytes.size() && align > granule_bytes && class_bytes[c] % align != 0) ++c;
    if (c >= class_bytes.size() || align > host_page_bytes) {
      const std::size_t whole = round_up(bytes, host_page_bytes);
      void* const memory = carve(whole, std::max(align, host_page_bytes), 0);
      if (memory != nullptr) plain_large_[reinterpret_cast<std::uintptr_t>(memory)] = whole;
      return memory;
    }
    // Each thread has its own blocks and runs, as with the thread caches of common allocators.
    free_list& list = free_[std::uint64_t{by.fiber} << 8U | c];
    if (!list.blocks.empty()) {
      void* const memory = list.blocks.back();
      list.blocks.pop_back();
      return memory;
    }
    if (list.run_end - list.run_next < class_bytes[c]) {
      void* const run = carve(run_bytes, host_page_bytes, 0);
      if (run == nullptr) return nullptr;
      list.run_next = reinterpret_cast<std::uintptr_t>(run);
      list.run_end = list.run_next + run_bytes;
      const std::size_t page = (list.run_next - first()) / host_page_bytes;
      page_class_.resize(std::max(page_class_.size(), page + run_bytes / host_page_bytes), large_class);
      std::fill_n(page_class_.begin() + static_cast<std::ptrdiff_t>(page), run_bytes / host_page_bytes,
                  static_cast<std::uint8_t>(c));
    }
    void* const memory = reinterpret_cast<void*>(list.run_next);
    list.run_next += class_bytes[c];
    return memory;
  }
  if (policy_ == policy::reuse) {
    free_list& list = free_[round_up(bytes, granule_bytes) << 16U | align];
    if (!list.blocks.empty()) {
      void* const memory = list.blocks.back();
      list.blocks.pop_back();
      remember(memory, bytes, by);
      return memory;
    }
  }
  void* const memory = carve(round_up(bytes, granule_bytes), align, red_zone_bytes);
  if (memory != nullptr) remember(memory, bytes, by);
  return memory;
}

const char* heap::deallocate(void* memory, const block_event& by) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  if (policy_ == policy::plain) {
    const auto large = plain_large_.find(address);
    if (large != plain_large_.end()) {
      plain_large_.erase(large);  // its addresses are not reused
      return nullptr;
    }
    const std::size_t page = (address - first()) / host_page_bytes;
    if (page >= page_class_.size() || page_class_[page] == large_class)
      return "an address that no allocation returned is freed";
    free_[std::uint64_t{by.fiber} << 8U | page_class_[page]].blocks.push_back(memory);
    return nullptr;
  }
  block_record* const block = find(address);
  if (block == nullptr || block->address != address) return "an address that no allocation returned is freed";
  if (block->state == block_state::freed) return "a block is freed twice";
  block->state = block_state::freed;
  block->freed = by;
  if (policy_ == policy::reuse) {
    // The alignment is not known here. An address is reused for requests up to the alignment that it has.
    const std::size_t align = std::size_t{1} << static_cast<unsigned>(std::countr_zero(address));
    for (std::size_t a = granule_bytes; a <= align; a *= 2) {
      const auto list = free_.find(round_up(block->bytes, granule_bytes) << 16U | a);
      if (list != free_.end()) {
        list->second.blocks.push_back(memory);
        break;
      }
    }
  }
  return nullptr;
}

std::size_t heap::usable_bytes(const void* memory) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  if (policy_ != policy::plain) {
    const block_record* const block = find(address);
    return block == nullptr ? 0 : block->bytes;
  }
  const auto large = plain_large_.find(address);
  if (large != plain_large_.end()) return large->second;
  const std::size_t page = (address - first()) / host_page_bytes;
  return page < page_class_.size() && page_class_[page] != large_class ? class_bytes[page_class_[page]] : 0;
}

void* heap::map(std::size_t bytes, std::size_t align) {
  const std::uintptr_t at = round_up(next_page_, std::max(align, host_page_bytes));
  if (at + bytes > arena::pages + arena::pages_bytes) return nullptr;
  next_page_ = at + round_up(bytes, host_page_bytes);
  return reinterpret_cast<void*>(at);
}

void heap::unmap(void* memory, std::size_t bytes) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  // Only the last mapping's addresses are reused, and they must be zero then.
  if (address + round_up(bytes, host_page_bytes) != next_page_) return;
  dirty_page_end_ = std::max(dirty_page_end_, next_page_);
  madvise(memory, bytes, MADV_DONTNEED);
  next_page_ = address;
}

std::vector<const block_record*> heap::live() const {
  std::vector<const block_record*> found;
  for (const block_record& block : blocks_)
    if (block.state != block_state::freed) found.push_back(&block);
  return found;
}

}  // namespace espalier::sim
