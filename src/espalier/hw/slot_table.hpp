#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace espalier::hw {

// Orderings
//   (1) release (release) -> take_from (acquire): the successor sees what the thread before it left in the per-thread
//       arrays. For a thread that is gone without a release, the kernel orders what it wrote before the answer that it
//       is gone.
//   (2) count (seq_cst) <-> used (seq_cst): an epoch advance that scans too few slots comes before the pin of the new
//       slot's thread. The fences of both in reclaim/epoch.hpp order it too.

/// The taken thread slots, and the thread of the operating system that holds each. The part of hw/thread_slot that is
/// not thread-local.
///
/// A slot is one word with three fields. The thread's number, 0 for a free slot. Whether the thread took it late, that
/// is, when nothing can release it at the thread's end any more. How often the slot has been taken. A late slot is
/// free again once its thread is gone. The count distinguishes a slot that another thread has reclaimed meanwhile from
/// the one that was read.
///
/// Constant-initialised and trivially destructible, so that threads that outlive static destruction can still release
/// their slot. All operations are lock-free.
template <std::uint32_t Capacity>
class slot_table {
 public:
  /// The result of take() if there is no slot.
  static constexpr std::uint32_t none = Capacity;

  /// Whether the end of its thread releases the slot.
  enum class tenure : bool { ends_with_thread, late };

  /// A slot for a thread (its number is positive), or `none`. is_gone(thread) says whether a thread no longer
  /// exists. take() calls it for the holders of late slots only, and only if it takes a late slot or finds no free
  /// one. O(slots in use).
  template <class IsGone>
  [[nodiscard]] std::uint32_t take(std::int32_t thread, tenure how, IsGone&& is_gone) noexcept {
    std::uint32_t slot = none;
    if (how == tenure::late) slot = take_abandoned(thread, how, is_gone);
    if (slot == none) slot = take_free(thread, how);
    if (slot == none && how != tenure::late) slot = take_abandoned(thread, how, is_gone);
    if (slot != none) count(slot);
    return slot;
  }

  /// Only by the holder.
  void release(std::uint32_t slot) noexcept {
    // order (1): release, release. relaxed: only the holder writes the word of a live thread.
    words_[slot].store(words_[slot].load(std::memory_order_relaxed) & ~holder, std::memory_order_release);
  }

  /// The thread that holds a slot; 0 for none.
  [[nodiscard]] std::int32_t holder_of(std::uint32_t slot) const noexcept {
    // relaxed: for diagnostics.
    return thread_of(words_[slot].load(std::memory_order_relaxed));
  }

  /// One more than the largest slot ever taken.
  // order (2): used, seq_cst
  [[nodiscard]] std::uint32_t used() const noexcept { return used_.load(std::memory_order_seq_cst); }

  /// In a child of fork(), which has one thread: its slot, if it is not `none`, now belongs to `thread`, the new number
  /// of that thread; all others are free.
  void keep_only(std::uint32_t slot, std::int32_t thread) noexcept {
    // relaxed: the child has one thread.
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

  /// Whether this thread has taken the slot, which had the word `before`.
  bool take_from(std::uint32_t slot, std::uint64_t before, std::int32_t thread, tenure how) noexcept {
    const std::uint64_t mine =
        ((before & ~holder) + one_taking) | word_of(thread, how == tenure::late ? late_bit : 0);
    // order (1): take_from, acquire. relaxed at a failure: the caller tries another slot.
    return words_[slot].compare_exchange_strong(before, mine, std::memory_order_acquire,
                                                std::memory_order_relaxed);
  }

  std::uint32_t take_free(std::int32_t thread, tenure how) noexcept {
    // relaxed: a guess, which take_from() confirms.
    for (std::uint32_t slot = 0; slot < Capacity; ++slot) {
      const std::uint64_t word = words_[slot].load(std::memory_order_relaxed);
      if ((word & holder) == 0 && take_from(slot, word, thread, how)) return slot;
    }
    return none;
  }

  template <class IsGone>
  std::uint32_t take_abandoned(std::int32_t thread, tenure how, IsGone& is_gone) noexcept {
    const std::uint32_t last = used();
    // relaxed: a guess, which take_from() confirms.
    for (std::uint32_t slot = 0; slot < last; ++slot) {
      const std::uint64_t word = words_[slot].load(std::memory_order_relaxed);
      if ((word & late_bit) == 0) continue;
      // The caller holds no slot, so a number equal to its own belonged to an earlier thread.
      if ((thread_of(word) == thread || is_gone(thread_of(word))) && take_from(slot, word, thread, how))
        return slot;
    }
    return none;
  }

  /// Extends used() to the slot.
  void count(std::uint32_t slot) noexcept {
    // relaxed: a guess, which the exchange confirms. order (2): count, seq_cst
    std::uint32_t seen = used_.load(std::memory_order_relaxed);
    while (seen <= slot && !used_.compare_exchange_weak(seen, slot + 1, std::memory_order_seq_cst)) {
    }
  }

  std::array<std::atomic<std::uint64_t>, Capacity> words_{};
  std::atomic<std::uint32_t> used_{0};
};

}  // namespace espalier::hw
