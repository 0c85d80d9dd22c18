#pragma once

#include <cstdint>

namespace espalier::hw {

/// Most threads that may use the library at one time.
inline constexpr std::uint32_t max_thread_slots = 4096;

/// A small number that no other live thread has: the index of this thread in every per-thread array of
/// the library. Taken at the first call, given back when the thread ends, then handed to a later thread;
/// what lies under an index therefore passes from an ended thread to its successor, with a happens-before
/// edge between the two. Constant time after the first call, which costs O(slots in use).
///
/// The destructor of another pthread key may call after the thread's slot was released. The thread then takes a late
/// slot, which no destructor releases: it is reclaimed, when slots are needed, once the thread has ended.
///
/// Throws std::system_error (resource_unavailable_try_again) when max_thread_slots threads hold one.
[[nodiscard]] std::uint32_t thread_slot();

/// The same; max_thread_slots where there is none to be had.
[[nodiscard]] std::uint32_t try_thread_slot() noexcept;

/// One more than the largest slot ever handed out: how far a scan over per-thread arrays must look.
[[nodiscard]] std::uint32_t thread_slots_used() noexcept;

/// The operating system's number of the thread that holds a slot, 0 if none does. For diagnostics: the
/// answer may be out of date when it arrives.
[[nodiscard]] std::int32_t thread_slot_owner(std::uint32_t slot) noexcept;

namespace detail {

// For fork_recovery.

/// The caller's slot if it has one; max_thread_slots otherwise.
[[nodiscard]] std::uint32_t held_thread_slot() noexcept;
/// In a child of fork(): the slots of all other threads are free, and the caller's is its own under its new number.
void forget_other_threads() noexcept;

}  // namespace detail

}  // namespace espalier::hw
