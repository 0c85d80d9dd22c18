#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "preload/recording/call_stack.hpp"

namespace espalier::preload {

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
