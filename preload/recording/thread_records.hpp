#pragma once

#include <atomic>
#include <cstdint>

#include "preload/kernel/futex_lock.hpp"
#include "preload/kernel/pages.hpp"
#include "preload/recording/block_table.hpp"
#include "preload/recording/call_stack.hpp"
#include "preload/recording/peak_watch.hpp"

namespace espalier::preload {

/// The data by which a thread records without locks. Its initial state is all zero.
struct thread_record {
  young_blocks young;
  stack_memo stacks;
  /// The owner is between two instructions that must not be separated. Written only by the owner.
  std::atomic<bool> busy;
  std::atomic<bool> owned;
  /// Blocks that the owner must still enter directly in the table: other threads freed some of its young ones.
  std::atomic<std::uint32_t> no_young;
  /// The bytes that the owner allocated and freed.
  byte_drift drift;
  /// Blocks that the sample left out, of all owners.
  std::atomic<std::uint64_t> passed_over;
  thread_record* next;  // never changes once the record is in the list
};

/// The records of all threads. A thread gets a record with its first block; when the thread ends, another one gets
/// it. Records are never unmapped. The owner uses its record without a fence. A thread that keeps all owners out
/// raises a flag, and has the kernel run a barrier in every thread. Each owner then has either seen the flag or is
/// seen busy (membarrier(2), MEMBARRIER_CMD_PRIVATE_EXPEDITED).
class thread_records {
 public:
  explicit constexpr thread_records(memory_budget& budget) noexcept : budget_(budget) {}
  thread_records(const thread_records&) = delete;
  thread_records& operator=(const thread_records&) = delete;

  /// `ended` is called with the record in each thread that has one, when the thread ends. False where the kernel has
  /// no such barrier or no thread-specific value can be had; there are no records then.
  bool start(void (*ended)(void*)) noexcept;

  /// A record for this thread; null where there are none, or memory is refused.
  [[nodiscard]] thread_record* acquire() noexcept;
  /// Leaves the record, with its young blocks, to another thread.
  static void release(thread_record& record) noexcept;

  /// Keeps owners out until thaw(). Not within `working`.
  void freeze() noexcept;
  void thaw() noexcept;
  /// In a child of fork(): other threads' records lose their owners. While frozen.
  void forget_other_threads(const thread_record* mine) noexcept;

  template <class Visitor>
  void for_each(Visitor&& visitor) noexcept {
    // order: for_each (acquire) <- acquire() (release)
    for (thread_record* each = first_.load(std::memory_order_acquire); each != nullptr; each = each->next)
      visitor(*each);
  }

  /// During its life the owner uses its record.
  class working {
   public:
    working(thread_records& all, thread_record& mine) noexcept : mine_(mine) {
      mine.busy.store(true, std::memory_order_relaxed);
      // A compiler fence: freeze() has the kernel execute the processor's barrier here.
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
