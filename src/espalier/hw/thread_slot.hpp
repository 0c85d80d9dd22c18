#pragma once

#include <cstdint>

namespace espalier::hw {

/// Most threads that may use the library at one time.
inline constexpr std::uint32_t max_thread_slots = 4096;

namespace detail {
// The slot of this thread; max_thread_slots before the first call, and in simulated programs, whose threads are fibers.
// The fast path reads a plain word, which needs no guard for dynamic initialisation. Shared objects read it by a call,
// unless they are compiled with -ftls-model=initial-exec. They must not be where a program opens and closes them:
// docs/decisions/hw.md, 84.
extern thread_local constinit std::uint32_t slot_of_thread;
// Separate, so that the fast paths save no registers.
[[nodiscard]] std::uint32_t first_thread_slot();
[[nodiscard]] std::uint32_t try_first_thread_slot() noexcept;
}  // namespace detail

/// A small number that no other live thread has: the index of this thread in every per-thread array of
/// the library. The first call takes it, and the end of the thread releases it for a later thread. So what lies
/// under an index passes from an ended thread to its successor, with a happens-before edge between the two.
/// Constant time after the first call, which costs O(slots in use).
///
/// The destructor of another pthread key may call it after the thread's slot was released. The thread then takes a
/// late slot, which no destructor releases. When slots are needed, late slots of ended threads are reclaimed.
///
/// Throws std::system_error (resource_unavailable_try_again) when max_thread_slots threads hold one.
[[nodiscard]] inline std::uint32_t thread_slot() {
  const std::uint32_t slot = detail::slot_of_thread;
  if (slot != max_thread_slots) [[likely]]
    return slot;
  return detail::first_thread_slot();
}

/// The same; max_thread_slots if there is no slot.
[[nodiscard]] inline std::uint32_t try_thread_slot() noexcept {
  const std::uint32_t slot = detail::slot_of_thread;
  if (slot != max_thread_slots) [[likely]]
    return slot;
  return detail::try_first_thread_slot();
}

/// One more than the largest slot ever taken: the end of a scan over per-thread arrays.
[[nodiscard]] std::uint32_t thread_slots_used() noexcept;

/// The operating system's number of the thread that holds a slot, 0 if none does. For diagnostics: the
/// result may be out of date at once.
[[nodiscard]] std::int32_t thread_slot_owner(std::uint32_t slot) noexcept;

namespace detail {

// For fork_recovery.

/// The caller's slot if it has one; otherwise max_thread_slots.
[[nodiscard]] std::uint32_t held_thread_slot() noexcept;
/// In a child of fork(): frees the slots of all other threads; the caller holds its slot under its new number.
void forget_other_threads() noexcept;

}  // namespace detail

}  // namespace espalier::hw
