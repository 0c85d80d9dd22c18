#pragma once

#include <cstddef>

#include "preload/heap/thread_heap.hpp"
#include "preload/kernel/futex_lock.hpp"

namespace espalier::preload {

/// The heaps of all threads: about as many as the most threads that existed at once, and one that threads without a
/// heap share. A thread gets a heap with its first block. When it ends, the heap goes with its contents to another
/// thread. Heaps are never unmapped. Any thread, except the functions around fork().
///
/// A thread that allocates so late that leave() is not called keeps its heap. Where no heap is free and there are
/// many, adopt() asks the kernel which owners still exist.
///
/// Orderings
///   (1) push (release) in thread_heap.hpp, cache_block (release) in thread_heap.cpp -> after_fork_in_child (fork):
///       the free lists of a copied heap are whole.
///   (2) heap_in_use (seq_cst) in thread_heap.cpp -> after_fork_in_child (fork): a heap that is copied during a change
///       is busy.
class thread_heaps {
 public:
  explicit constexpr thread_heaps(address_registry& registry) noexcept
      : commons_(registry), shared_(commons_) {}
  thread_heaps(const thread_heaps&) = delete;
  thread_heaps& operator=(const thread_heaps&) = delete;

  /// Null where there is no memory for a heap.
  [[nodiscard]] thread_heap* adopt() noexcept;
  void leave(thread_heap& mine) noexcept;

  /// Calls work(heap) with the shared heap, under a lock. For threads without a heap.
  template <class Work>
  auto with_shared(Work&& work) noexcept {
    const futex_guard guard(shared_lock_);
    return work(shared_);
  }

  /// Returns to the OS the memory that contains no block, of this thread's heap and of those without a thread. True
  /// where there was any. `mine` may be null.
  bool trim(thread_heap* mine) noexcept;

  /// Called around a copy of the process. In the copy, heaps of threads that do not exist there are adopted again,
  /// except those that were changing: their regions stay as they are. `mine` may be null.
  void before_fork() noexcept;
  void after_fork_in_parent() noexcept;
  void after_fork_in_child(const thread_heap* mine) noexcept;

  /// Exact at quiescence. A block that a thread other than the owner freed counts as used until the owner collects it.
  struct figures {
    std::size_t mapped_bytes = 0;
    std::size_t used_blocks = 0;
    std::size_t used_bytes = 0;    ///< of these, rounding included
    std::size_t large_blocks = 0;  ///< of these, blocks too large for a class
    std::size_t large_bytes = 0;
    std::size_t regions = 0;      ///< in use
    std::size_t empty_bytes = 0;  ///< of empty regions with memory
    std::size_t heaps = 0;
  };
  [[nodiscard]] figures count() noexcept;
  /// The same for a signal handler that ends the process. Its thread may hold the locks: false where they are not
  /// free within a tenth of a second.
  [[nodiscard]] bool count_soon(figures& all) noexcept;

  [[nodiscard]] constexpr heap_commons& commons() noexcept { return commons_; }

  /// For tests: unmaps all; no block and no heap may be used afterwards.
  void unmap_all() noexcept;

 private:
  [[nodiscard]] figures count_locked() noexcept;
  [[nodiscard]] thread_heap* first_free() noexcept;
  void free_heaps_of_ended_threads(kernel_thread caller) noexcept;

  heap_commons commons_;
  futex_lock lock_;  // of the list
  thread_heap* heaps_ = nullptr;
  // At this number of heaps adopt() asks the kernel. The bound is twice the heaps owned after the last time, so that
  // the questions amortise to about one for each new heap.
  static constexpr std::size_t least_asked = 16;
  std::size_t heap_count_ = 0;
  std::size_t ask_at_ = least_asked;
  futex_lock shared_lock_;
  thread_heap shared_;
};

}  // namespace espalier::preload
