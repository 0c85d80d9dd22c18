#pragma once

#include <cstddef>

#include "preload/heap/heap_commons.hpp"
#include "preload/heap/thread_heap.hpp"
#include "preload/recording/futex_lock.hpp"

namespace espalier::preload {

/// The heaps of all threads: about as many as there were threads at once, and one that threads share which have none. A
/// heap is had with a thread's first block and goes, with what is left in it, to another thread when it ends; heaps
/// are never unmapped. Any thread, but for what is said of fork().
///
/// A thread that allocates so late that leave() is not called owns its heap for ever. Where no heap is free and there are
/// many, adopt() asks the kernel which of their owners still exist.
class thread_heaps {
 public:
  explicit constexpr thread_heaps(address_registry& registry) noexcept
      : commons_(registry), shared_(commons_) {}
  thread_heaps(const thread_heaps&) = delete;
  thread_heaps& operator=(const thread_heaps&) = delete;

  /// Null where there is no memory for one.
  [[nodiscard]] thread_heap* adopt() noexcept;
  void leave(thread_heap& mine) noexcept;

  /// Calls work(heap) with the heap that threads share, under a lock. For threads that have none.
  template <class Work>
  auto with_shared(Work&& work) noexcept {
    const futex_guard guard(shared_lock_);
    return work(shared_);
  }

  /// Gives back what no block is in, of this thread's heap and of those without a thread, to the system. True where
  /// there was any. `mine` may be null.
  bool trim(thread_heap* mine) noexcept;

  /// Around a copy of the process. In the copy, heaps of threads that are not there are adopted again, but for those
  /// that were changing: their regions stay as they are for ever. `mine` may be null.
  void before_fork() noexcept;
  void after_fork_in_parent() noexcept;
  void after_fork_in_child(const thread_heap* mine) noexcept;

  /// Exact at quiescence. What one thread gave back of another's is in use until that one has looked.
  struct figures {
    std::size_t mapped_bytes = 0;
    std::size_t used_blocks = 0;
    std::size_t used_bytes = 0;    ///< of these, what rounding adds included
    std::size_t large_blocks = 0;  ///< of these, those too large for a class
    std::size_t large_bytes = 0;
    std::size_t regions = 0;      ///< in use
    std::size_t empty_bytes = 0;  ///< of empty regions that keep their memory
    std::size_t heaps = 0;
  };
  [[nodiscard]] figures count() noexcept;
  /// The same for a signal handler that ends the process, whose thread may have the locks: false where they cannot be had
  /// within a tenth of a second.
  [[nodiscard]] bool count_soon(figures& all) noexcept;

  [[nodiscard]] constexpr heap_commons& commons() noexcept { return commons_; }

  /// For tests: no block and no heap may be used any more.
  void unmap_all() noexcept;

 private:
  [[nodiscard]] figures count_locked() noexcept;
  [[nodiscard]] thread_heap* first_free() noexcept;
  void take_back(kernel_thread caller) noexcept;

  heap_commons commons_;
  futex_lock lock_;  // of the list
  thread_heap* heaps_ = nullptr;
  // The kernel is asked when there are so many: at twice those that were owned behind the last time, each heap is asked
  // about once for each that is made.
  static constexpr std::size_t least_asked = 16;
  std::size_t heap_count_ = 0;
  std::size_t ask_at_ = least_asked;
  futex_lock shared_lock_;
  thread_heap shared_;
};

}  // namespace espalier::preload
