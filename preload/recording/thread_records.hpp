#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "preload/recording/futex_lock.hpp"
#include "preload/recording/memory_budget.hpp"
#include "preload/recording/peak_watch.hpp"
#include "preload/recording/stack_memo.hpp"
#include "preload/recording/young_blocks.hpp"

namespace espalier::preload {

/// What makes a thread's recording fast. All bytes zero is its first state.
struct thread_record {
  young_blocks young;
  stack_memo stacks;
  /// The owner is between two instructions that belong together. Written by the owner only.
  std::atomic<bool> busy;
  std::atomic<bool> owned;
  /// Blocks that the owner is to enter in the table at once: others gave some of its young ones back.
  std::atomic<std::uint32_t> no_young;
  /// What the owner put into the heap and took out of it.
  byte_drift drift;
  /// Blocks that the sample left out, of all owners.
  std::atomic<std::uint64_t> passed_over;
  thread_record* next;  // never changes once the record is in the list
};

/// The records of all threads. A thread's is had with its first block and goes to another thread when it ends;
/// records are never unmapped. The owner works on its own without a fence: who wants to keep all owners out raises
/// a flag and has the kernel run a barrier in every thread, after which each has seen the flag or is seen busy
/// (membarrier(2), MEMBARRIER_CMD_PRIVATE_EXPEDITED).
class thread_records {
 public:
  explicit constexpr thread_records(memory_budget& budget) noexcept : budget_(budget) {}
  thread_records(const thread_records&) = delete;
  thread_records& operator=(const thread_records&) = delete;

  /// `ended` is called in each thread that has a record, with it, when the thread ends. False where the kernel has no
  /// such barrier or there is no thread-specific value to be had; there are no records then.
  bool start(void (*ended)(void*)) noexcept;

  /// A record for this thread; null where there are none, or memory is refused.
  [[nodiscard]] thread_record* acquire() noexcept;
  /// For another thread, with the young blocks that are in it.
  static void release(thread_record& record) noexcept;

  /// Keeps owners out until thaw(). Not within `working`.
  void freeze() noexcept;
  void thaw() noexcept;
  /// In a child of fork(): other threads' records have no owner. Frozen.
  void forget_other_threads(const thread_record* mine) noexcept;

  template <class Visitor>
  void for_each(Visitor&& visitor) noexcept {
    // order: for_each (acquire) -> acquire() (release)
    for (thread_record* each = first_.load(std::memory_order_acquire); each != nullptr; each = each->next)
      visitor(*each);
  }

  /// The owner at work on its record.
  class working {
   public:
    working(thread_records& all, thread_record& mine) noexcept : mine_(mine) {
      mine.busy.store(true, std::memory_order_relaxed);
      // Of the compiler only: freeze() has the processor's executed here.
      std::atomic_signal_fence(std::memory_order_seq_cst);
      if (all.frozen_.load(std::memory_order_relaxed)) all.wait(mine);
    }
    ~working() { mine_.busy.store(false, std::memory_order_release); }
    working(const working&) = delete;
    working& operator=(const working&) = delete;

   private:
    thread_record& mine_;
  };

 private:
  void wait(thread_record& mine) noexcept;

  memory_budget& budget_;
  std::atomic<thread_record*> first_{nullptr};
  std::atomic<bool> frozen_{false};
  futex_lock gate_;  // held while frozen
  bool started_ = false;
  unsigned key_ = 0;
};

}  // namespace espalier::preload
