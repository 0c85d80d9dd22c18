#pragma once

#include <pthread.h>
#include <time.h>

#include <cstdint>

#include "preload/elision/mutex_words.hpp"

// Taking a plain mutex by its words: test and test-and-set with growing pauses, as long as that is likely to be
// shorter than sleeping; then the futex, in glibc's protocol.
//
// Sources: L. Rudolph and Z. Segall, ISCA 1984; U. Drepper, Futexes are tricky, 2011, section 5, mutex 2. Deviation
// from the lock of D. Dice, T. Harris, A. Kogan and Y. Lev, 2015, which only spins: with more runnable threads than
// processors that is no way to wait.

namespace espalier::preload {

/// The words of a mutex once it was taken otherwise, and back.
void acquire(mutex_words mutex, int owner) noexcept;
[[nodiscard]] bool try_acquire(mutex_words mutex, int owner) noexcept;
void release(mutex_words mutex) noexcept;

/// Until a moment of CLOCK_REALTIME or CLOCK_MONOTONIC. 0; ETIMEDOUT; or EINVAL where it would have to wait and the
/// moment is none, or for another clock. A moment that has passed still takes a mutex that is free. errno is kept.
[[nodiscard]] int acquire_until(mutex_words mutex, int owner, clockid_t clock,
                                const timespec& moment) noexcept;

/// Whether somebody may be waited for by this clock.
[[nodiscard]] constexpr bool is_waitable(clockid_t clock) noexcept {
  return clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC;
}

}  // namespace espalier::preload
