#pragma once

#include <pthread.h>
#include <time.h>

#include <cstdint>

#include "preload/elision/mutex_words.hpp"

// Takes a plain mutex by its words: test and test-and-set with growing pauses, as long as that is likely to be
// shorter than sleeping; then the futex, in glibc's protocol.
//
// Sources: L. Rudolph and Z. Segall, ISCA 1984; U. Drepper, Futexes are tricky, 2011, section 5, mutex 2. Deviation
// from the lock of D. Dice, T. Harris, A. Kogan and Y. Lev, 2015, which only spins: with more runnable threads than
// processors, spinning is no way to wait.

namespace espalier::preload {

/// Takes a mutex that is not elided, and releases it.
void acquire(mutex_words mutex, int owner) noexcept;
[[nodiscard]] bool try_acquire(mutex_words mutex, int owner) noexcept;
void release(mutex_words mutex) noexcept;

/// Waits until a moment of CLOCK_REALTIME or CLOCK_MONOTONIC. 0; ETIMEDOUT; EINVAL for another clock, or where it
/// would have to wait and the moment is invalid. With a moment in the past it still takes a free mutex. errno is
/// preserved.
[[nodiscard]] int acquire_until(mutex_words mutex, int owner, clockid_t clock,
                                const timespec& moment) noexcept;

/// Whether this clock can limit a wait.
[[nodiscard]] constexpr bool is_waitable(clockid_t clock) noexcept {
  return clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC;
}

}  // namespace espalier::preload
