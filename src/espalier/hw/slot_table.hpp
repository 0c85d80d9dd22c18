#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace espalier::hw {

/// Which thread slots are taken, and by which thread of the operating system. What hw/thread_slot is made of,
/// without anything thread-local in it.
///
/// A slot is one word: the thread's number, 0 for a free slot; whether the thread took it late, that is when it can
/// no longer be told to give it back; and how often the slot has been taken. A late slot is free again once its
/// thread is gone. The count tells a slot that another thread has reclaimed meanwhile from the one that was looked
/// at.
///
/// Constant-initialised and trivially destructible, so that threads which outlive static destruction may still give
/// their slot back. All operations are lock-free.
template <std::uint32_t Capacity>
class slot_table {
 public:
  /// What take() answers where no slot is to be had.
  static constexpr std::uint32_t none = Capacity;

  /// What becomes of the slot at the end of its thread.
  enum class tenure : bool { ends_with_thread, late };

  /// A slot for a thread (its number is positive), or `none`. is_gone(thread) says whether a thread no longer
  /// exists; it is asked about the holders of late slots only, and only by a late taking or one that finds no free
  /// slot. O(slots in use).
  template <class IsGone>
  [[nodiscard]] std::uint32_t take(std::int32_t thread, tenure how, IsGone&& is_gone) noexcept {
    std::uint32_t slot = none;
    if (how == tenure::late) slot = take_abandoned(thread, how, is_gone);
    if (slot == none) slot = take_free(thread, how);
    if (slot == none && how != tenure::late) slot = take_abandoned(thread, how, is_gone);
    if (slot != none) count(slot);
    return slot;
  }

  /// By the holder alone.
  void release(std::uint32_t slot) noexcept {
    // order: release (release) -> take_free (acquire)
    words_[slot].store(words_[slot].load(std::memory_order_relaxed) & ~holder, std::memory_order_release);
  }

  /// The thread that holds a slot; 0 for none.
  [[nodiscard]] std::int32_t holder_of(std::uint32_t slot) const noexcept {
    return thread_of(words_[slot].load(std::memory_order_relaxed));
  }

  /// One more than the largest slot ever taken.
  [[nodiscard]] std::uint32_t used() const noexcept { return used_.load(std::memory_order_seq_cst); }

  /// In a child of fork(), where one thread is left: its slot, or `none`, becomes that of `thread`, which is its
  /// number now, and all others are free.
  void keep_only(std::uint32_t slot, std::int32_t thread) noexcept {
    for (std::uint32_t s = 0; s < used(); ++s) {
      const std::uint64_t before = words_[s].load(std::memory_order_relaxed);
      const std::uint64_t held = s == slot ? word_of(thread, before & late_bit) : 0;
      words_[s].store((before & ~holder) | held, std::memory_order_relaxed);
    }
  }

 private:
  // From the lowest bit: 31 bits of the thread's number, the late bit, 32 bits of the count.
  static constexpr std::uint64_t thread_bits = 0x7FFF'FFFFU;
  static constexpr std::uint64_t late_bit = thread_bits + 1;
  static constexpr std::uint64_t holder = thread_bits | late_bit;
  static constexpr std::uint64_t one_taking = holder + 1;

  static constexpr std::int32_t thread_of(std::uint64_t word) noexcept {
    return static_cast<std::int32_t>(word & thread_bits);
  }
  static constexpr std::uint64_t word_of(std::int32_t thread, std::uint64_t late) noexcept {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(thread)) | late;
  }

  /// Whether the slot, which held `before`, is this thread's now.
  bool take_from(std::uint32_t slot, std::uint64_t before, std::int32_t thread, tenure how) noexcept {
    const std::uint64_t mine =
        ((before & ~holder) + one_taking) | word_of(thread, how == tenure::late ? late_bit : 0);
    // order: take_free (acquire) <- release (release): the successor sees what the thread before it left in the
    // per-thread arrays. A thread that is gone has released nothing; what it wrote, the kernel has ordered before
    // the answer that it is gone.
    return words_[slot].compare_exchange_strong(before, mine, std::memory_order_acquire,
                                                std::memory_order_relaxed);
  }

  std::uint32_t take_free(std::int32_t thread, tenure how) noexcept {
    for (std::uint32_t slot = 0; slot < Capacity; ++slot) {
      const std::uint64_t word = words_[slot].load(std::memory_order_relaxed);
      if ((word & holder) == 0 && take_from(slot, word, thread, how)) return slot;
    }
    return none;
  }

  template <class IsGone>
  std::uint32_t take_abandoned(std::int32_t thread, tenure how, IsGone& is_gone) noexcept {
    const std::uint32_t last = used();
    for (std::uint32_t slot = 0; slot < last; ++slot) {
      const std::uint64_t word = words_[slot].load(std::memory_order_relaxed);
      if ((word & late_bit) == 0) continue;
      // A number equal to the caller's, which holds no slot, was that of an earlier thread.
      if ((thread_of(word) == thread || is_gone(thread_of(word))) && take_from(slot, word, thread, how))
        return slot;
    }
    return none;
  }

  /// Extends used() to the slot.
  void count(std::uint32_t slot) noexcept {
    std::uint32_t seen = used_.load(std::memory_order_relaxed);
    // seq_cst: an epoch advance that scans too few slots must be ordered before this thread's pin.
    while (seen <= slot && !used_.compare_exchange_weak(seen, slot + 1, std::memory_order_seq_cst)) {
    }
  }

  std::array<std::atomic<std::uint64_t>, Capacity> words_{};
  std::atomic<std::uint32_t> used_{0};
};

}  // namespace espalier::hw
