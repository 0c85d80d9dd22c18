#include "preload/elision/futex_mutex.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "espalier/sync/backoff.hpp"
#include "preload/kernel/kept_errno.hpp"
#include "preload/recording/futex_lock.hpp"

namespace espalier::preload {
namespace {

/// Pauses that double: some 500 turns of a spin loop in total.
constexpr unsigned most_spins = 9;

bool take_if_free(std::atomic_ref<int> word) noexcept {
  if (word.load(std::memory_order_relaxed) != mutex_free) return false;
  // relaxed: there is no other thread.
  if (alone_in_process()) {
    word.store(mutex_taken, std::memory_order_relaxed);
    return true;
  }
  int expected = mutex_free;
  // order: take_if_free (acquire) <- release (release)
  return word.compare_exchange_strong(expected, mutex_taken, std::memory_order_acquire,
                                      std::memory_order_relaxed);
}

bool take_spinning(mutex_words mutex) noexcept {
  const std::atomic_ref<int> word = mutex.lock_word();
  if (take_if_free(word)) return true;
  backoff pause;
  for (unsigned spins = 0; spins < most_spins; ++spins) {
    pause.wait();
    if (take_if_free(word)) return true;
    // Sleeping threads come first: a spinning thread would take the mutex before each of them.
    if (mutex.looks_awaited()) return false;
  }
  return false;
}

/// Sleeps while the word says that a thread may wait. 0, or the error of the call.
int sleep_on(std::atomic_ref<int> word, int* address, clockid_t clock, const timespec* moment) noexcept {
  if (word.load(std::memory_order_relaxed) != mutex_awaited) return 0;
  const int operation =
      FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG | (clock == CLOCK_REALTIME ? FUTEX_CLOCK_REALTIME : 0);
  return syscall(SYS_futex, address, operation, mutex_awaited, moment, nullptr, FUTEX_BITSET_MATCH_ANY) == 0
             ? 0
             : errno;
}

}  // namespace

void acquire(mutex_words mutex, int owner) noexcept {
  const std::atomic_ref<int> word = mutex.lock_word();
  if (!take_spinning(mutex)) {
    const kept_errno keep;
    while (word.exchange(mutex_awaited, std::memory_order_acquire) != mutex_free)
      sleep_on(word, mutex.futex(), CLOCK_MONOTONIC, nullptr);
  }
  mutex.enter(owner);
}

bool try_acquire(mutex_words mutex, int owner) noexcept {
  if (!take_if_free(mutex.lock_word())) return false;
  mutex.enter(owner);
  return true;
}

int acquire_until(mutex_words mutex, int owner, clockid_t clock, const timespec& moment) noexcept {
  if (!is_waitable(clock)) return EINVAL;
  const std::atomic_ref<int> word = mutex.lock_word();
  if (!take_spinning(mutex)) {
    if (moment.tv_nsec < 0 || moment.tv_nsec >= 1'000'000'000) return EINVAL;
    // The kernel rejects such a moment as invalid.
    if (moment.tv_sec < 0) return ETIMEDOUT;
    const kept_errno keep;
    int failed = 0;
    while (word.exchange(mutex_awaited, std::memory_order_acquire) != mutex_free) {
      failed = sleep_on(word, mutex.futex(), clock, &moment);
      if (failed == ETIMEDOUT) break;
      failed = 0;
    }
    // The word stays "awaited": at worst a later release makes a wake-up call for no thread.
    if (failed != 0) return failed;
  }
  mutex.enter(owner);
  return 0;
}

void release(mutex_words mutex) noexcept {
  mutex.leave();
  const std::atomic_ref<int> word = mutex.lock_word();
  int* const address = mutex.futex();
  if (alone_in_process()) {
    word.store(mutex_free, std::memory_order_release);
    return;
  }
  // order: release (release) -> take_if_free, acquire, acquire_until (acquire). The next holder may destroy the
  // mutex, so it is not accessed any more.
  if (word.exchange(mutex_free, std::memory_order_release) != mutex_awaited) return;
  const kept_errno keep;
  syscall(SYS_futex, address, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1, nullptr, nullptr, 0);
}

}  // namespace espalier::preload
