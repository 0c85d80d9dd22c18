#pragma once

#include <algorithm>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "espalier/hw/cache_line.hpp"
#include "espalier/hw/fork_recovery.hpp"
#include "espalier/hw/instrumentation.hpp"
#include "espalier/sync/lock_concept.hpp"
#include "espalier/sync/per_thread.hpp"
#include "espalier/sync/ttas_lock.hpp"

#if defined(ESPALIER_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>
#endif

namespace espalier {

// AddressSanitizer learns which bytes of an arena are free, and reports accesses to freed blocks. Without the sanitizer
// both compile to nothing.

inline void poison([[maybe_unused]] const void* memory, [[maybe_unused]] std::size_t bytes) noexcept {
#if defined(ESPALIER_ADDRESS_SANITIZER)
  ASAN_POISON_MEMORY_REGION(memory, bytes);
#endif
}

inline void unpoison([[maybe_unused]] const void* memory, [[maybe_unused]] std::size_t bytes) noexcept {
#if defined(ESPALIER_ADDRESS_SANITIZER)
  ASAN_UNPOISON_MEMORY_REGION(memory, bytes);
#endif
}

/// A run of bump-allocated blocks, never used before. next() is null when there are no more.
template <class R>
concept bump_run = std::default_initializable<R> && requires(R& run) {
  { run.next() } noexcept -> std::same_as<void*>;
};

/// The common part of the sources of blocks of one size. Each thread has a run of bump-allocated blocks, and caches
/// the blocks that it frees. Beyond a bound it hands them on in batches, so that memory freed by one thread serves
/// all. Allocation and deallocation are a few instructions on memory of the calling thread, which takes a lock once
/// per batch or run.
///
/// A thread without memory for its record can still free blocks: into a list for all threads, under the lock.
///
/// A child of fork() leaks the runs and free blocks of lost threads where they may be half written. Free blocks
/// always, at most two batches for each such thread, since their lists are plain words in plain order. What the lock
/// protects, if a lost thread held it.
template <bump_run Run>
class block_cache {
 public:
  /// Blocks of at least 16 bytes. A batch has 64 blocks; of large ones it has 64 KiB, at least two blocks, so that
  /// what threads cache is bounded.
  explicit block_cache(std::size_t block_bytes) noexcept
      : block_bytes_(block_bytes),
        batch_(std::clamp((std::size_t{64} << 10U) / block_bytes, std::size_t{2}, std::size_t{64})) {}

  /// If neither the thread nor the batches have a block, refill(run) replaces the thread's run by one with at
  /// least one block, or throws std::bad_alloc. One thread at a time calls it. The blocks of a run must be
  /// poisoned.
  template <class Refill>
  [[nodiscard]] void* allocate(Refill&& refill) {
    cache& c = caches_.local();
    void* memory = nullptr;
    if (c.free != nullptr) {
      free_block* const b = c.free;
      unpoison(b, block_bytes_);
      c.free = b->next;
      --c.free_count;
      memory = b;
    } else {
      memory = c.run.next();
      if (memory == nullptr) memory = allocate_slowly(c, refill);
      unpoison(memory, block_bytes_);
    }
    // relaxed: only this thread writes it; a count needs no order.
    c.in_use.store(c.in_use.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return memory;
  }

  /// If most blocks that were handed out wait in batches, reduce() is called under the lock, by one thread at a time. It
  /// may remove blocks by remove_free().
  template <class Reduce>
  void deallocate(void* memory, const Reduce& reduce) noexcept {
    cache* const mine = caches_.if_made();
    if (mine == nullptr) [[unlikely]]
      return deallocate_first(memory, reduce);
    cache& c = *mine;
    auto* const b = static_cast<free_block*>(memory);
    b->next = c.free;
    poison(b, block_bytes_);
    c.free = b;
    // relaxed: only this thread writes it; a count needs no order.
    c.in_use.store(c.in_use.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
    if (++c.free_count >= 2 * batch_) flush_batch(c, reduce);
  }
  void deallocate(void* memory) noexcept {
    deallocate(memory, [] {});
  }

  [[nodiscard]] std::size_t batch_bytes() const noexcept { return batch_ * block_bytes_; }
  /// Bytes of blocks in batches. Under the lock.
  [[nodiscard]] std::size_t bytes_in_batches() const noexcept { return batch_count_ * batch_bytes(); }
  /// Calls visit(block) for each block in a batch. Under the lock.
  template <class Visitor>
  void visit_batches(const Visitor& visit) const noexcept {
    for (free_block* first = batches_; first != nullptr;) {
      unpoison(first, block_bytes_);
      free_block* const next_batch = first->next_batch;
      for (free_block* b = first; b != nullptr;) {
        unpoison(b, block_bytes_);
        free_block* const next = b->next;
        poison(b, block_bytes_);
        visit(static_cast<const std::byte*>(static_cast<const void*>(b)));
        b = next;
      }
      first = next_batch;
    }
  }
  /// Removes the blocks of batches for which is_removed(block). Under the lock.
  template <class Removed>
  void remove_free(const Removed& is_removed) noexcept {
    free_block* of_batch = std::exchange(batches_, nullptr);
    batch_count_ = 0;
    while (of_batch != nullptr) {
      unpoison(of_batch, block_bytes_);
      free_block* const next_batch = of_batch->next_batch;
      for (free_block* b = of_batch; b != nullptr;) {
        unpoison(b, block_bytes_);
        free_block* const next = b->next;
        if (is_removed(static_cast<const std::byte*>(static_cast<const void*>(b))))
          poison(b, block_bytes_);
        else
          add_for_all(b);
        b = next;
      }
      of_batch = next_batch;
    }
  }

  [[nodiscard]] std::size_t block_bytes() const noexcept { return block_bytes_; }

  /// What the caches take beside the blocks.
  [[nodiscard]] std::size_t bytes_beside_blocks() const noexcept { return caches_.bytes(); }

  /// Exact at quiescence.
  [[nodiscard]] std::uint64_t blocks_in_use() const noexcept {
    // relaxed: counts, exact at quiescence.
    std::int64_t blocks = freed_for_all_.load(std::memory_order_relaxed);
    caches_.for_each(
        [&](std::uint32_t, const cache& c) { blocks += c.in_use.load(std::memory_order_relaxed); });
    return static_cast<std::uint64_t>(std::max<std::int64_t>(blocks, 0));
  }

  /// Calls visit(run) for the run of each thread, which may use it meanwhile.
  template <class Visitor>
  void for_each_run(Visitor&& visit) const {
    caches_.for_each([&](std::uint32_t, const cache& c) { visit(c.run); });
  }

  /// For the source's hw::fork_link. True if a lost thread held the lock: it may have been in refill(). Then
  /// abandoned(run) is called for the run of each lost thread, before the run is emptied.
  template <class Abandoned>
  bool recover_in_child(const hw::fork_survivor& survivor, Abandoned&& abandoned) noexcept {
    const bool torn = lock_.is_locked();
    caches_.for_each([&](std::uint32_t slot, cache& c) {
      if (!survivor.lost(slot)) return;
      // Nothing to repair means no write, and so no copied page.
      if (c.free != nullptr) c.free = nullptr;
      if (c.free_count != 0) c.free_count = 0;
      if (!torn) return;
      abandoned(std::as_const(c.run));
      std::destroy_at(&c.run);
      std::construct_at(&c.run);
    });
    if (torn) {
      batches_ = nullptr;
      batch_count_ = 0;
      for_all_ = nullptr;
      for_all_count_ = 0;
      lock_.unlock();
    }
    return torn;
  }

 private:
  struct free_block {
    free_block* next;        // in a thread's list or in a batch
    free_block* next_batch;  // in the list of batches, on the first block of each
  };

  struct cache {
    free_block* free = nullptr;
    std::size_t free_count = 0;
    Run run;
    // The owner writes it, blocks_in_use() reads it. Negative for a thread that frees blocks of other threads.
    std::atomic<std::int64_t> in_use{0};
  };

  template <class Refill>
  void* allocate_slowly(cache& c, Refill& refill) {
    const lock_guard hold(lock_);
    if (batches_ != nullptr) {
      free_block* const first = batches_;
      unpoison(first, block_bytes_);
      batches_ = first->next_batch;
      --batch_count_;
      c.free = first->next;
      c.free_count = batch_ - 1;
      return first;
    }
    if (for_all_ != nullptr) {
      free_block* const first = for_all_;
      unpoison(first, block_bytes_);
      c.free = first->next;
      c.free_count = for_all_count_ - 1;
      for_all_ = nullptr;
      for_all_count_ = 0;
      return first;
    }
    refill(c.run);
    return c.run.next();
  }

  /// A thread's first deallocation, or any of a thread without memory for its record.
  template <class Reduce>
  [[gnu::noinline]] void deallocate_first(void* memory, const Reduce& reduce) noexcept {
    if (caches_.try_local() != nullptr)
      deallocate(memory, reduce);
    else
      deallocate_for_all(memory);
  }

  void deallocate_for_all(void* memory) noexcept {
    const lock_guard hold(lock_);
    add_for_all(static_cast<free_block*>(memory));
    // relaxed: written under the lock; a count needs no order.
    freed_for_all_.store(freed_for_all_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  }

  void add_for_all(free_block* b) noexcept {
    b->next = for_all_;
    for_all_ = b;
    if (++for_all_count_ == batch_) {
      b->next_batch = batches_;
      batches_ = b;
      ++batch_count_;
      for_all_ = nullptr;
      for_all_count_ = 0;
    }
    poison(b, block_bytes_);
  }

  template <class Reduce>
  [[gnu::noinline]] void flush_batch(cache& c, const Reduce& reduce) noexcept {
    free_block* const first = c.free;
    free_block* last = first;
    for (std::size_t i = 1; i < batch_; ++i) {
      unpoison(last, block_bytes_);
      free_block* const next = last->next;
      poison(last, block_bytes_);
      last = next;
    }
    unpoison(last, block_bytes_);
    c.free = last->next;
    last->next = nullptr;
    poison(last, block_bytes_);
    c.free_count -= batch_;

    const lock_guard hold(lock_);
    unpoison(first, block_bytes_);
    first->next_batch = batches_;
    poison(first, block_bytes_);
    batches_ = first;
    ++batch_count_;
    reduce();
  }

  const std::size_t block_bytes_;
  const std::size_t batch_;
  per_thread<cache> caches_;
  alignas(hw::false_sharing_bytes) ttas_lock lock_;
  free_block* batches_ = nullptr;
  std::size_t batch_count_ = 0;
  // Blocks that threads without a record have freed: fewer than a batch.
  free_block* for_all_ = nullptr;
  std::size_t for_all_count_ = 0;
  // Written under the lock, read without it. The number of blocks that those threads have freed, negative.
  std::atomic<std::int64_t> freed_for_all_{0};
};

}  // namespace espalier
