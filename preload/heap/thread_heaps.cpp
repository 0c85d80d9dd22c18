#include "preload/heap/thread_heaps.hpp"

#include <errno.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <new>

#include "preload/kernel/pages.hpp"
#include "preload/kernel/saved_errno.hpp"

namespace espalier::preload {
namespace {

constexpr std::size_t heap_bytes = rounded_up(sizeof(thread_heap), page_bytes);

bool try_lock_briefly(futex_lock& lock) noexcept {
  constexpr int tries = 100;
  constexpr timespec between{0, 1'000'000};
  const saved_errno keep;
  for (int i = 0; i < tries; ++i) {
    if (lock.try_lock()) return true;
    syscall(SYS_nanosleep, &between, nullptr);
  }
  return false;
}

kernel_thread this_thread() noexcept {
  return {static_cast<std::int32_t>(getpid()), static_cast<std::int32_t>(syscall(SYS_gettid))};
}

/// A thread of this process. False also where the system call is forbidden.
bool has_ended(kernel_thread which) noexcept {
  return syscall(SYS_tgkill, which.process, which.thread, 0) != 0 && errno == ESRCH;
}

}  // namespace

thread_heap* thread_heaps::adopt() noexcept {
  const kernel_thread caller = this_thread();
  const futex_guard guard(lock_);
  thread_heap* free = first_free();
  if (free == nullptr && heap_count_ >= ask_at_) {
    free_heaps_of_ended_threads(caller);
    free = first_free();
  }
  if (free != nullptr) {
    free->owned_by = caller;
    return free;
  }
  void* const pages = commons_.pages.map(heap_bytes, page_bytes);
  if (pages == nullptr) return nullptr;
  auto* const fresh = ::new (pages) thread_heap(commons_);
  fresh->owned_by = caller;
  fresh->next = heaps_;
  heaps_ = fresh;
  ++heap_count_;
  return fresh;
}

/// The caller holds the lock.
thread_heap* thread_heaps::first_free() noexcept {
  for (thread_heap* h = heaps_; h != nullptr; h = h->next) {
    if (h->owned_by == kernel_thread{}) return h;
  }
  return nullptr;
}

/// The caller holds the lock. Frees the heaps whose owners have ended. The calling thread has no heap: one with its
/// number is of an earlier thread. Heaps of other processes stay, such as those of the parent after a copy without
/// fork()'s handlers: their owners have other numbers here.
void thread_heaps::free_heaps_of_ended_threads(kernel_thread caller) noexcept {
  const saved_errno keep;
  std::size_t owned = 0;
  for (thread_heap* h = heaps_; h != nullptr; h = h->next) {
    // A heap that was changing stays as it is.
    const bool ours = h->owned_by.process == caller.process && !h->busy();
    if (ours && (h->owned_by == caller || has_ended(h->owned_by)))
      h->owned_by = {};
    else if (h->owned_by != kernel_thread{})
      ++owned;
  }
  ask_at_ = 2 * owned + least_asked;
}

void thread_heaps::leave(thread_heap& mine) noexcept {
  mine.free_empty_regions();
  const futex_guard guard(lock_);
  mine.owned_by = {};
}

bool thread_heaps::trim(thread_heap* mine) noexcept {
  std::size_t given = mine == nullptr ? 0 : mine->free_empty_regions();
  {
    // Under the lock no heap is adopted meanwhile.
    const futex_guard guard(lock_);
    for (thread_heap* h = heaps_; h != nullptr; h = h->next) {
      if (h->owned_by == kernel_thread{}) given += h->free_empty_regions();
    }
  }
  given += with_shared([](thread_heap& h) { return h.free_empty_regions(); });
  given += commons_.spans.discard_empty();
  return given != 0;
}

void thread_heaps::before_fork() noexcept {
  lock_.lock();
  shared_lock_.lock();
  commons_.spans.lock().lock();
}

void thread_heaps::after_fork_in_parent() noexcept {
  commons_.spans.lock().unlock();
  shared_lock_.unlock();
  lock_.unlock();
}

void thread_heaps::after_fork_in_child(const thread_heap* mine) noexcept {
  const kernel_thread caller = this_thread();
  // order (1), (2): after_fork_in_child, fork
  for (thread_heap* h = heaps_; h != nullptr; h = h->next) {
    if (h == mine)
      h->owned_by = caller;
    else if (!h->busy())
      h->owned_by = {};
  }
  after_fork_in_parent();
}

thread_heaps::figures thread_heaps::count() noexcept {
  const futex_guard of_heaps(lock_);
  const futex_guard of_regions(commons_.spans.lock());
  return count_locked();
}

bool thread_heaps::count_soon(figures& all) noexcept {
  if (!try_lock_briefly(lock_)) return false;
  const bool both = try_lock_briefly(commons_.spans.lock());
  if (both) {
    all = count_locked();
    commons_.spans.lock().unlock();
  }
  lock_.unlock();
  return both;
}

thread_heaps::figures thread_heaps::count_locked() noexcept {
  figures all;
  commons_.spans.for_each_locked([&](const region& r) {
    const bool large = r.use == region_use::large;
    const std::size_t blocks = large ? 1 : r.live();
    const std::size_t bytes = large ? r.bytes : blocks * r.stride;
    all.regions += large ? r.run_regions : 1;
    all.used_blocks += blocks;
    all.used_bytes += bytes;
    if (!large) return;
    ++all.large_blocks;
    all.large_bytes += bytes;
  });
  const auto subtract_cached = [&](const thread_heap& heap) {
    const thread_heap::cached_blocks cached = heap.count_cached();
    all.used_blocks -= cached.blocks;
    all.used_bytes -= cached.bytes;
  };
  for (const thread_heap* h = heaps_; h != nullptr; h = h->next) {
    ++all.heaps;
    subtract_cached(*h);
  }
  subtract_cached(shared_);
  const large_blocks::figures huge = commons_.large.count_huge();
  all.used_blocks += huge.blocks;
  all.used_bytes += huge.bytes;
  all.large_blocks += huge.blocks;
  all.large_bytes += huge.bytes;
  all.mapped_bytes = commons_.pages.bytes();
  all.empty_bytes = commons_.spans.count_locked().dirty_regions * region_bytes;
  return all;
}

void thread_heaps::unmap_all() noexcept {
  while (heaps_ != nullptr) {
    thread_heap* const gone = heaps_;
    heaps_ = gone->next;
    commons_.pages.unmap(gone, heap_bytes);
  }
  commons_.spans.unmap_all();
}

}  // namespace espalier::preload
