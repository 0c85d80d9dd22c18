#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "preload/kernel/pages.hpp"
#include "preload/recording/frame_rule.hpp"

namespace espalier::preload {

/// The greatest depth that is followed.
inline constexpr unsigned most_frames = 16;

/// The state of a frame as the function that it called sees it.
struct caller_state {
  std::uintptr_t pc;  ///< the return address
  std::uintptr_t sp;  ///< the stack pointer after the return
  std::uintptr_t fp;  ///< the frame-pointer register after the return
};

/// The inputs that determine the result of a walk: whether the caller's frame pointer was used, and the words of the
/// stack that were read, in order.
class words_read {
 public:
  void clear() noexcept {
    count_ = 0;
    frame_pointer_used_ = false;
  }
  void use_frame_pointer() noexcept { frame_pointer_used_ = true; }
  [[nodiscard]] bool frame_pointer_used() const noexcept { return frame_pointer_used_; }
  /// `at` is above `sp`, the stack pointer of the caller with which the walk began.
  void add(std::uintptr_t sp, std::uintptr_t at, std::uintptr_t word) noexcept {
    if (count_ >= most || at - sp > ~std::uint32_t{0}) {
      count_ = most + 1;
      return;
    }
    distances_[count_] = static_cast<std::uint32_t>(at - sp);
    words_[count_++] = word;
  }
  /// False where there were too many words to store.
  [[nodiscard]] bool whole() const noexcept { return count_ <= most; }

  /// Whether the same words are there now. It reads as the walk did: none beyond the first that differs.
  [[nodiscard]] bool same(std::uintptr_t sp) const noexcept {
    for (unsigned i = 0; i < count_; ++i) {
      if (*reinterpret_cast<const std::uintptr_t*>(sp + distances_[i]) != words_[i]) return false;
    }
    return true;
  }

 private:
  static constexpr unsigned most = 32;

  std::uint32_t count_;
  bool frame_pointer_used_;
  std::array<std::uint32_t, most> distances_;
  std::array<std::uintptr_t, most> words_;
};

/// The state of the caller of the function that contains this call, which must keep a frame pointer.
__attribute__((__always_inline__)) inline caller_state caller_of_this() noexcept {
  const auto* const frame = static_cast<const std::uintptr_t*>(__builtin_frame_address(0));
  return {frame[1], reinterpret_cast<std::uintptr_t>(frame + 2), frame[0]};
}

/// Walks call stacks: gives the return addresses. The rule of each return address is read from the unwinding
/// information once and then cached. So a frame costs one hash table hit, where an unwinder interprets the
/// information again and restores every register. Nothing is guessed; a frame without a rule ends the stack.
///
/// Any thread, signal handlers included. Wait-free except for the first visit of a return address, which takes no
/// lock either. Reads no memory beyond the thread's stack, even where unwinding information is wrong.
/// Constant-initialised, never destroyed.
class call_stack {
 public:
  explicit constexpr call_stack(memory_budget& budget) noexcept : budget_(budget) {}
  call_stack(const call_stack&) = delete;
  call_stack& operator=(const call_stack&) = delete;

  /// Maps the memory for rules; false where it is refused. Called once, before walk().
  [[nodiscard]] bool start() noexcept;

  /// Frames of this code, the library's own, are skipped. Called once, before walk().
  void leave_out(std::uintptr_t begin, std::uintptr_t end) noexcept {
    own_begin_ = begin;
    own_bytes_ = end - begin;
  }

  /// Writes up to `wanted` return addresses to `frames`, innermost first, from that of `from` on, and returns their
  /// number. Where `read` is not null, it gets the words that were read from the stack.
  unsigned walk(const caller_state& from, std::uintptr_t* frames, unsigned wanted,
                words_read* read = nullptr) noexcept;

  /// Discards all rules: a module was unloaded, and another may be loaded at its addresses.
  void forget() noexcept;

  /// The number of return addresses with a cached rule.
  [[nodiscard]] std::size_t rules() const noexcept { return used_.load(std::memory_order_relaxed); }

 private:
  struct slot {
    std::atomic<std::uintptr_t> address;  // 0 while free; then it never changes
    std::atomic<std::uint64_t> rule;      // 0 while unknown
  };
  static constexpr unsigned slot_bits = 17;
  static constexpr std::size_t slots = std::size_t{1} << slot_bits;
  // For a program with more call sites, some rules are looked up each time.
  static constexpr std::size_t most_rules = slots / 4 * 3;

  frame_rule rule_of(std::uintptr_t return_address) noexcept;

  memory_budget& budget_;
  slot* slots_ = nullptr;
  std::uintptr_t own_begin_ = 0;
  std::uintptr_t own_bytes_ = 0;
  std::atomic<std::size_t> used_{0};
};

/// Caches the stacks that a thread walked last, with the words of its stack that each walk read. The caller's state
/// and these words determine a walk: while they are equal, a new walk would find the same frames. Comparing a dozen
/// words costs a tenth of a walk. A stack has two places: interpreters call malloc from one place with many stacks.
/// For one thread only.
class stack_memo {
 public:
  /// The number of a stack; 0 where it is not in the cache, or is of another generation.
  [[nodiscard]] std::uint32_t find(const caller_state& from, std::uint32_t generation) const noexcept {
    const std::size_t at = index_of(from);
    if (holds(entries_[at], from, generation)) [[likely]]
      return entries_[at].site;
    return find_in(entries_[at ^ 1U], from, generation);
  }

  /// Walks a stack, gets its number by `intern(frames, depth)`, and caches it unless the number is 0.
  template <class Intern>
  std::uint32_t walk(call_stack& stacks, const caller_state& from, unsigned wanted, std::uint32_t generation,
                     Intern&& intern) noexcept {
    entry& here = entries_[index_of(from) ^ (turn_++ & 1U)];
    here.site = 0;
    here.read.clear();
    std::array<std::uintptr_t, most_frames> frames;  // NOLINT: walk() fills what is read
    const unsigned depth = stacks.walk(from, frames.data(), wanted, &here.read);
    const std::uint32_t site = intern(frames.data(), depth);
    if (!here.read.whole()) {
      here.read.clear();
      return site;
    }
    here.from = from;
    here.generation = generation;
    here.site = site;
    return site;
  }

  void clear() noexcept {
    for (entry& each : entries_) each.site = 0;
  }

 private:
  static constexpr std::size_t entries = 256;

  static std::size_t index_of(const caller_state& from) noexcept {
    return (from.pc ^ from.pc >> 7U ^ from.sp >> 4U) % entries;
  }

  struct entry {
    caller_state from;
    std::uint32_t generation;
    std::uint32_t site;  // 0: the entry is empty
    words_read read;
  };

  static bool holds(const entry& here, const caller_state& from, std::uint32_t generation) noexcept {
    return here.from.pc == from.pc && here.from.sp == from.sp && here.generation == generation &&
           (here.from.fp == from.fp || !here.read.frame_pointer_used()) && here.read.same(from.sp);
  }
  __attribute__((noinline)) static std::uint32_t find_in(const entry& here, const caller_state& from,
                                                         std::uint32_t generation) noexcept {
    return holds(here, from, generation) ? here.site : 0;
  }

  std::array<entry, entries> entries_;
  std::uint32_t turn_;  // which of a stack's two places is next replaced
};

}  // namespace espalier::preload
