#include "preload/heap/thread_heap.hpp"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "preload/heap/misuse.hpp"
#include "preload/kernel/pages.hpp"
#include "preload/kernel/saved_errno.hpp"

namespace espalier::preload {
namespace {

/// The most blocks of a class in the cache: so few that their memory is negligible.
constexpr auto most_cached = [] {
  constexpr std::size_t most_blocks = 32;
  constexpr std::size_t most_bytes = std::size_t{64} << 10U;
  std::array<std::uint32_t, index_class::count> most{};
  for (std::size_t c = 0; c < most.size(); ++c)
    most[c] = static_cast<std::uint32_t>(
        std::clamp<std::size_t>(most_bytes / geometries[c].stride, 2, most_blocks));
  return most;
}();

constexpr const char no_pointer[] = "free(): invalid pointer";
constexpr const char freed_twice[] = "free(): double free, or never handed out:";

void* aligned_up(void* block, std::size_t align) noexcept {
  return static_cast<std::byte*>(block) + (-address(block) & (align - 1));
}

/// The region of an address in a span. It must be one with blocks.
region& region_with(void* block, const char* otherwise) noexcept {
  const std::size_t number = (address(block) & (span::bytes - 1)) / region_bytes;
  region* const r = region_of(block);
  if (number == 0 || r->use == region_use::unused) misused(otherwise, block);
  return *r;
}

/// The start of the block to which a program's pointer leads.
std::byte* start_in(const region& r, void* block) noexcept {
  std::byte* const start = r.start_of(block);
  if (start > block || (r.use == region_use::blocks && start != block)) misused(no_pointer, block);
  return start;
}

/// Copies as many of the bytes as are readable: the size of another allocator's block is unknown.
void copy_readable(void* to, const void* from, std::size_t bytes) noexcept {
  const saved_errno keep;
  const iovec into{to, bytes};
  const iovec out_of{const_cast<void*>(from), bytes};
  // Where the system call is forbidden, copies to the end of the page, which is mapped.
  if (process_vm_readv(getpid(), &into, 1, &out_of, 1, 0) < 0) {
    const std::size_t in_page = page_bytes - (address(from) & (page_bytes - 1));
    std::memcpy(to, from, bytes < in_page ? bytes : in_page);
  }
}

/// True if the owner must be notified.
[[nodiscard]] bool free_remotely(region& r, void* block) noexcept {
  auto* const pushed = static_cast<free_block*>(block);
  const std::size_t offset = address(block) & (region_bytes - 1);
  std::byte* const memory = static_cast<std::byte*>(block) - offset;
  // relaxed: the compare-exchange checks the value.
  std::uint64_t before = r.remote.load(std::memory_order_relaxed);
  std::uint64_t after = 0;
  do {
    const remote_free_list list(before);
    if (list.count() != 0 && list.newest() == offset) misused(freed_twice, block);
    pushed->next = list.count() == 0 ? nullptr : reinterpret_cast<free_block*>(memory + list.newest());
    after = list.with(offset);
    // order (1): free_remotely, release; order (2): free_remotely, acquire. relaxed: a failure only retries.
  } while (
      !r.remote.compare_exchange_weak(before, after, std::memory_order_acq_rel, std::memory_order_relaxed));
  // Unless the bit was set, the region may belong to another owner by now.
  return remote_free_list(before).notifies();
}

}  // namespace

/// A copy of the process that is made during this object's life leaves the heap alone.
class thread_heap::heap_in_use {
 public:
  explicit heap_in_use(thread_heap& heap) noexcept : heap_(heap), nested_(heap.busy()) {
    // order (5): heap_in_use, seq_cst. relaxed: the fences order `busy_` with the changes between them.
    heap_.busy_.store(true, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  ~heap_in_use() {
    // order (5): heap_in_use, seq_cst. relaxed: as in the constructor.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    heap_.busy_.store(nested_, std::memory_order_relaxed);
  }
  heap_in_use(const heap_in_use&) = delete;
  heap_in_use& operator=(const heap_in_use&) = delete;

 private:
  thread_heap& heap_;
  const bool nested_;
};

void* thread_heap::allocate(std::size_t bytes) noexcept {
  bool zeroed = false;
  return allocate(bytes, zeroed);
}

void* thread_heap::allocate(std::size_t bytes, bool& zeroed) noexcept {
  if (bytes > index_class::largest_bytes) {
    if (bytes > std::numeric_limits<std::ptrdiff_t>::max()) return nullptr;
    return commons_.large.allocate(bytes, least_align, zeroed);
  }
  return allocate_plain(class_of(bytes), zeroed);
}

void* thread_heap::allocate_plain(std::size_t size_class, bool& zeroed) noexcept {
  void* block = allocate_of(plain_[size_class], size_class, region_use::blocks, zeroed);
  // Where no region can be had, frees an empty one, and then uses larger blocks. There may be few regions: of memory
  // that is locked, a program may have as little as a megabyte.
  if (block == nullptr && free_empty_regions() != 0)
    block = allocate_of(plain_[size_class], size_class, region_use::blocks, zeroed);
  for (std::size_t larger = size_class + 1; block == nullptr && larger < index_class::count; ++larger) {
    if (plain_[larger].current != &no_region)
      block = allocate_of(plain_[larger], larger, region_use::blocks, zeroed, false);
  }
  return block;
}

/// `grows`: where the class has no block left, a region may be added to it.
void* thread_heap::allocate_of(class_regions& of, std::size_t size_class, region_use use, bool& zeroed,
                               bool grows) noexcept {
  void* const block = pop(*of.current, zeroed);
  if (block != nullptr) return block;
  if (of.cached != nullptr) return pop_cached(of);
  return refill(of, size_class, use, grows) ? pop(*of.current, zeroed) : nullptr;
}

void* thread_heap::allocate_aligned(std::size_t bytes, std::size_t align) noexcept {
  if (align <= least_align) return allocate(bytes);
  bool zeroed = false;
  // The address after a block's last byte is not in the block.
  if (bytes == 0) bytes = 1;
  if (bytes <= index_class::largest_bytes && align <= index_class::largest_bytes) {
    const std::size_t size_class = index_class::of(index_class::bytes_within(bytes, align), align);
    if (align <= index_class::line && size_class != index_class::none)
      return allocate_plain(size_class, zeroed);
    if (size_class != index_class::none) {
      void* const block = allocate_of(aligned_[size_class], size_class, region_use::aligned, zeroed);
      return block == nullptr ? nullptr : aligned_up(block, align);
    }
  }
  if (bytes > std::numeric_limits<std::ptrdiff_t>::max()) return nullptr;
  return commons_.large.allocate(bytes, align, zeroed);
}

void* thread_heap::allocate_zeroed(std::size_t bytes) noexcept {
  bool zeroed = false;
  void* block = allocate_quickly(bytes, zeroed);
  if (block == nullptr) block = allocate(bytes, zeroed);
  if (block != nullptr && !zeroed) std::memset(block, 0, bytes);
  return block;
}

/// Ensures that the current region has a block to hand out. False with nothing changed where there is no memory.
bool thread_heap::refill(class_regions& of, std::size_t size_class, region_use use, bool grows) noexcept {
  const heap_in_use now(*this);
  for (;;) {
    region& r = *of.current;
    if (r.bump_after != 0 && r.free == nullptr && r.bump == r.bump_end) begin_group(r);
    if (r.free != nullptr || r.bump != r.bump_end) return true;
    if (&r != &no_region) {
      // order (1): refill, acquire
      append(r, remote_free_list(r.remote.exchange(0, std::memory_order_acquire)));
      if (r.free != nullptr) return true;
    }
    process_notifications();
    region* fresh = of.with_room;
    if (fresh != nullptr)
      unlink(*fresh);
    else if (!grows || (fresh = new_region(of, size_class, use)) == nullptr)
      return false;
    if (&r != &no_region) used_up(r);
    make_current(of, *fresh);
    if (use == region_use::blocks) set_granules(of, size_class);
  }
}

/// Continues bump allocation after the line left out.
void thread_heap::begin_group(region& r) noexcept {
  const std::uint32_t group = geometries[r.size_class].group;
  const std::uint32_t blocks = r.bump_after < group ? r.bump_after : group;
  r.bump_after -= blocks;
  r.bump_end += index_class::line + std::size_t{blocks} * r.stride;
  r.bump += index_class::line;
}

region* thread_heap::new_region(class_regions& of, std::size_t size_class, region_use use) noexcept {
  bool zeroed = false;
  region* const r = commons_.spans.take(1, zeroed);
  if (r == nullptr) return nullptr;
  if (!of.begun) {
    of.next_index = static_cast<std::uint32_t>(commons_.first_index(size_class) % index_class::indices);
    of.begun = true;
  }
  const std::size_t offset = run_colour{of.next_index, commons_.next_page()}.offset();
  const index_class::shape shape = index_class::shape_of(size_class);
  const std::size_t blocks = index_class::blocks_from(shape, offset);
  of.next_index =
      static_cast<std::uint32_t>((offset + shape.offset(blocks)) / index_class::line % index_class::indices);
  std::byte* const memory = span::of(r)->memory(span::number_of(*r));
  r->free = nullptr;
  r->count = 0;
  r->deferred = 0;
  const std::size_t until_gap = shape.punctuated && shape.group < blocks ? shape.group : blocks;
  r->first = r->bump = memory + offset;
  r->bump_end = r->bump + until_gap * shape.stride;
  r->bump_after = static_cast<std::uint32_t>(blocks - until_gap);
  r->stride = static_cast<std::uint32_t>(shape.stride);
  r->size_class = static_cast<std::uint8_t>(size_class);
  r->use = use;
  r->zeroed = zeroed;
  r->notify_when_pushed = false;
  r->notifying = false;
  // relaxed: no other thread has a block of the region yet.
  r->remote.store(0, std::memory_order_relaxed);
  own(*r);
  if (commons_.prefault) {
    const std::size_t page = offset & ~(page_bytes - 1);
    page_source::touch(memory + page, region_bytes - page);
  }
  return r;
}

void thread_heap::make_current(class_regions& of, region& r) noexcept {
  // From now on, what others push is collected when the region is used up.
  collect_unnotified(r);
  r.state = region_state::current;
  ++r.count;
  of.current = &r;
}

void thread_heap::set_granules(const class_regions& of, std::size_t size_class) noexcept {
  if (size_class > classes_by_granules.back()) return;
  for (std::size_t g = 0; g < granules; ++g) {
    if (classes_by_granules[g] == size_class) by_granules_[g] = of.current;
  }
}

/// Adds a remote free list to the region's own free list.
void thread_heap::append(region& r, remote_free_list list) noexcept {
  if (list.count() == 0) return;
  std::byte* const memory = span::of(&r)->memory(span::number_of(r));
  if (list.count() > r.live() || memory + list.newest() >= r.bump)
    misused(freed_twice, memory + list.newest());
  // The oldest block is the last of the list.
  if (r.free != nullptr) reinterpret_cast<free_block*>(memory + list.oldest())->next = r.free;
  r.free = reinterpret_cast<free_block*>(memory + list.newest());
  r.count -= list.count();
}

/// Collects the remote free list and clears the notify bit: later pushes notify no heap.
void thread_heap::collect_unnotified(region& r) noexcept {
  // order (1): collect_unnotified, acquire
  const remote_free_list list(r.remote.exchange(0, std::memory_order_acquire));
  if (r.notify_when_pushed && !list.notifies()) r.notifying = true;
  r.notify_when_pushed = false;
  append(r, list);
}

/// The current region is used up.
void thread_heap::used_up(region& r) noexcept {
  --r.count;
  r.state = region_state::full;
  if (!r.notifying) return abandon(r);
  r.deferred = r.count - 1;
  r.count = 1;
}

void thread_heap::own(region& r) noexcept {
  // relaxed: (2) or (3) orders the fields of a region that comes from another heap, the pool's lock those of a new one.
  r.owner.store(this, std::memory_order_relaxed);
  r.quick_owner.store(r.use == region_use::blocks ? this : nullptr, std::memory_order_relaxed);
}

/// Abandons a full region: the next thread that frees a block of it clears the notify bit.
void thread_heap::abandon(region& r) noexcept {
  // relaxed: the compare-exchange below publishes `home` and the owner.
  r.home.store(this, std::memory_order_relaxed);
  r.notify_when_pushed = true;
  r.quick_owner.store(nullptr, std::memory_order_relaxed);
  r.owner.store(nullptr, std::memory_order_relaxed);
  std::uint64_t nothing = 0;
  // order (2): abandon, release. relaxed: after a failure collect_notified() acquires.
  if (r.remote.compare_exchange_strong(nothing, remote_free_list::notify_bit, std::memory_order_release,
                                       std::memory_order_relaxed))
    return;
  // Another thread pushed a block meanwhile.
  own(r);
  collect_notified(r);
}

/// For a region of which this thread cleared the notify bit by a push.
void thread_heap::notify_owner(region& r) noexcept {
  // relaxed: (2) orders `owner` and `home`. `notified_count_` only decides which thread takes the region over.
  if (thread_heap* const owner = r.owner.load(std::memory_order_relaxed); owner != nullptr)
    return owner->notify(r);
  const heap_in_use now(*this);
  thread_heap* const home = r.home.load(std::memory_order_relaxed);
  // A thread that allocates no blocks of the class would only hold the region's. relaxed: as above.
  const bool wanted = home->notified_count_.load(std::memory_order_relaxed) >= commons_.patience &&
                      list_of(r).current != &no_region;
  if (home != this && !wanted) return home->notify(r);
  own(r);
  collect_notified(r);
}

/// For a full region of which this heap was the last owner.
void thread_heap::cache_block(region& r, void* block) noexcept {
  class_regions& of = list_of(r);
  auto* const freed = static_cast<free_block*>(block);
  // `bump` does not change any more: the whole run was handed out.
  if (freed == of.cached || block >= r.bump) double_free(block);
  freed->next = of.cached;
  // order (4): cache_block, release
  std::atomic_signal_fence(std::memory_order_release);
  of.cached = freed;
  if (++of.cached_count > most_cached[r.size_class]) free_cached(of);
}

void* thread_heap::pop_cached(class_regions& of) noexcept {
  free_block* const block = of.cached;
  of.cached = block->next;
  of.cached_count = of.cached == nullptr ? 0 : of.cached_count - 1;
  return block;
}

void thread_heap::free_cached(class_regions& of) noexcept {
  const heap_in_use now(*this);
  // As many as were counted: a double free makes the list circular.
  std::uint32_t left = std::exchange(of.cached_count, 0);
  free_block* block = std::exchange(of.cached, nullptr);
  for (; block != nullptr && left != 0; --left) {
    free_block* const after = block->next;
    region& r = *region_of(block);
    // relaxed: as in deallocate().
    if (r.owner.load(std::memory_order_relaxed) == this)
      push(r, block);
    else if (free_remotely(r, block))
      notify_owner(r);
    block = after;
  }
}

thread_heap::cached_blocks thread_heap::count_cached() const noexcept {
  cached_blocks all;
  for (const auto* const classes : {&plain_, &aligned_}) {
    for (std::size_t c = 0; c < classes->size(); ++c) {
      all.blocks += (*classes)[c].cached_count;
      all.bytes += std::size_t{(*classes)[c].cached_count} * geometries[c].stride;
    }
  }
  return all;
}

void thread_heap::notify(region& of) noexcept {
  // relaxed: a count that orders nothing, and a list head that the compare-exchange checks.
  notified_count_.fetch_add(1, std::memory_order_relaxed);
  region* first = notified_.load(std::memory_order_relaxed);
  do {
    of.next_notified = first;
    // order (3): notify, release. relaxed: a failure only retries.
  } while (
      !notified_.compare_exchange_weak(first, &of, std::memory_order_release, std::memory_order_relaxed));
}

void thread_heap::process_notifications() noexcept {
  // relaxed: a region missed here is found by the next call, and `notified_count_` is approximate.
  if (notified_.load(std::memory_order_relaxed) == nullptr) return;
  // order (3): process_notifications, acquire
  region* r = notified_.exchange(nullptr, std::memory_order_acquire);
  notified_count_.store(0, std::memory_order_relaxed);
  while (r != nullptr) {
    region* const after = r->next_notified;
    r->notifying = false;
    r->notify_when_pushed = false;
    // relaxed: (3) orders it.
    if (r->owner.load(std::memory_order_relaxed) == nullptr) own(*r);
    collect_notified(*r);
    r = after;
  }
}

/// For a region without a pending notification: collects the remote free list.
void thread_heap::collect_notified(region& r) noexcept {
  if (r.state == region_state::current) return;
  if (r.state == region_state::leaving) return release(r);
  // order (1): collect_notified, acquire; order (2): collect_notified, release
  const remote_free_list list(r.remote.exchange(remote_free_list::notify_bit, std::memory_order_acq_rel));
  r.notify_when_pushed = true;
  if (r.state == region_state::full) {
    if (list.count() == 0) return;
    r.count += r.deferred;
    r.deferred = 0;
    link(r);
  }
  append(r, list);
  if (r.count == 0) {
    unlink(r);
    release(r);
  }
}

void thread_heap::double_free(const void* block) noexcept { misused(freed_twice, block); }

void thread_heap::counted_down(region& r) noexcept {
  const heap_in_use now(*this);
  // A current region counts itself: only a double free removes that count.
  if (r.state == region_state::current) double_free(r.free);
  if (r.state == region_state::full) {
    r.count = r.deferred;
    r.deferred = 0;
    link(r);
    if (r.count != 0) return;
  }
  unlink(r);
  release(r);
}

void thread_heap::link(region& r) noexcept {
  region*& first = list_of(r).with_room;
  r.state = region_state::with_room;
  r.before = nullptr;
  r.next = first;
  if (first != nullptr) first->before = &r;
  first = &r;
}

void thread_heap::unlink(region& r) noexcept {
  (r.before == nullptr ? list_of(r).with_room : r.before->next) = r.next;
  if (r.next != nullptr) r.next->before = r.before;
}

/// For an empty region in no list. No thread has a block of it, but one that pushed a block may not have notified yet.
void thread_heap::release(region& r) noexcept {
  if (r.notifying) {
    r.state = region_state::leaving;
    return;
  }
  class_regions& of = list_of(r);
  // relaxed: no block of the region is left, so no other thread reads the owner before the region's next use.
  r.quick_owner.store(nullptr, std::memory_order_relaxed);
  r.use = region_use::unused;
  commons_.spans.release(r, 1);
  // A program that shrinks does not keep regions for cached blocks.
  if (of.cached != nullptr) free_cached(of);
}

std::size_t thread_heap::free_empty_regions() noexcept {
  const heap_in_use now(*this);
  std::size_t given = 0;
  process_notifications();
  for (auto* const classes : {&plain_, &aligned_}) {
    for (class_regions& of : *classes) free_cached(of);
  }
  const auto look_at = [&](class_regions& of, std::size_t size_class) {
    region& r = *of.current;
    if (&r == &no_region) return;
    // order (1): free_empty_regions, acquire
    append(r, remote_free_list(r.remote.exchange(0, std::memory_order_acquire)));
    if (r.count != 1) return;
    of.current = &no_region;
    if (&of == &plain_[size_class]) set_granules(of, size_class);
    r.count = 0;
    release(r);
    given += region_bytes;
  };
  for (std::size_t c = 0; c < index_class::count; ++c) {
    look_at(plain_[c], c);
    look_at(aligned_[c], c);
  }
  return given;
}

void thread_heap::deallocate(void* block) noexcept {
  switch (kind_of(commons_.registry, block)) {
    case address_registry::foreign:
      return;
    case address_registry::huge:
      return commons_.large.deallocate_huge(block);
    case address_registry::span:
      break;
  }
  region& r = region_with(block, freed_twice);
  if (r.use == region_use::large) {
    if (block != r.first) misused(no_pointer, block);
    return commons_.large.deallocate(r);
  }
  std::byte* const start = start_in(r, block);
  // relaxed: a heap that reads itself reads its own latest store. With a stale other value the block is pushed, which
  // is right under any owner. Where `home` is this heap, the block goes to the cache and keeps the region in use.
  thread_heap* const owner = r.owner.load(std::memory_order_relaxed);
  if (owner != this) {
    if (owner == nullptr && r.home.load(std::memory_order_relaxed) == this) return cache_block(r, start);
    if (free_remotely(r, start)) notify_owner(r);
    return;
  }
  if (start >= r.bump) double_free(block);
  push(r, start);
}

void* thread_heap::resize(void* old, std::size_t bytes) noexcept {
  if (bytes > std::numeric_limits<std::ptrdiff_t>::max()) return nullptr;
  const address_registry::kind kind = kind_of(commons_.registry, old);
  const std::size_t before = usable_bytes(commons_.registry, old);
  // A block that is too large by less than half stays: the next size may be the old one.
  if (bytes <= before && bytes > before / 2) return old;
  if (kind == address_registry::huge) {
    if (void* const block = commons_.large.resize_huge(old, bytes)) return block;
  } else if (kind == address_registry::span && region_of(old)->use == region_use::large) {
    if (commons_.large.resize(*region_of(old), bytes)) return old;
  } else if (kind == address_registry::span && bytes <= before &&
             class_of(bytes) == region_of(old)->size_class) {
    return old;
  }
  void* block = allocate_quickly(bytes);
  if (block == nullptr) block = allocate(bytes);
  // A block that only shrinks may stay.
  if (block == nullptr) return bytes <= before ? old : nullptr;
  if (kind == address_registry::foreign)
    copy_readable(block, old, bytes);
  else
    std::memcpy(block, old, bytes < before ? bytes : before);
  if (!deallocate_quickly(commons_.registry, old)) deallocate(old);
  return block;
}

std::size_t usable_bytes(const address_registry& registry, void* block) noexcept {
  switch (kind_of(registry, block)) {
    case address_registry::foreign:
      return 0;
    case address_registry::huge:
      return large_blocks::usable_bytes_huge(block);
    case address_registry::span:
      break;
  }
  const region& r = region_with(block, no_pointer);
  if (r.use == region_use::large) {
    if (block != r.first) misused(no_pointer, block);
    return large_blocks::usable_bytes(r);
  }
  std::byte* const start = start_in(r, block);
  return r.stride - static_cast<std::size_t>(static_cast<std::byte*>(block) - start);
}

}  // namespace espalier::preload
