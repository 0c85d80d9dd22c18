#include "preload/elision/futex_mutex.hpp"

#include <dlfcn.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "espalier/sync/backoff.hpp"
#include "preload/kernel/futex_lock.hpp"
#include "preload/kernel/saved_errno.hpp"

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
    const saved_errno keep;
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
    const saved_errno keep;
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
  const saved_errno keep;
  syscall(SYS_futex, address, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1, nullptr, nullptr, 0);
}

namespace {

template <class Function>
bool find(const char* name, Function*& to) noexcept {
  to = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
  return to != nullptr;
}

struct words {
  int lock;
  int owner;
  unsigned users;
};

bool has(const pthread_mutex_t& mutex, words expected) noexcept {
  return mutex.__data.__lock == expected.lock && mutex.__data.__owner == expected.owner &&
         mutex.__data.__nusers == expected.users;
}

constexpr words free_words{mutex_free, 0, 0};

/// The C library takes and releases the mutex, and respects a mutex that this library took.
bool locks_as_known(const next_mutex& functions, pthread_mutex_t& mutex, words held) noexcept {
  if (!has(mutex, free_words) || functions.lock(&mutex) != 0) return false;
  const bool locked = has(mutex, held) && functions.trylock(&mutex) == EBUSY && has(mutex, held);
  if (functions.unlock(&mutex) != 0 || !has(mutex, free_words)) return false;
  acquire(mutex_words(mutex), held.owner);
  const bool seen = has(mutex, held) && functions.trylock(&mutex) == EBUSY;
  if (functions.unlock(&mutex) != 0) return false;
  return locked && seen && has(mutex, free_words);
}

/// A wait on a condition leaves a mutex of this library "awaited", because it cannot know whether there is a waiter.
bool waits_as_known(pthread_mutex_t& mutex, words held) noexcept {
  pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
  constexpr timespec long_ago{1, 0};
  acquire(mutex_words(mutex), held.owner);
  const int failed = pthread_cond_timedwait(&condition, &mutex, &long_ago);
  const bool kept = has(mutex, {mutex_awaited, held.owner, held.users});
  release(mutex_words(mutex));
  pthread_cond_destroy(&condition);
  return failed == ETIMEDOUT && kept && has(mutex, free_words);
}

}  // namespace

bool look_up(next_mutex& to) noexcept {
  bool all = find("pthread_mutex_lock", to.lock);
  all &= find("pthread_mutex_trylock", to.trylock);
  all &= find("pthread_mutex_timedlock", to.timedlock);
  all &= find("pthread_mutex_clocklock", to.clocklock);
  all &= find("pthread_mutex_unlock", to.unlock);
  all &= find("pthread_mutex_init", to.init);
  all &= find("pthread_mutex_destroy", to.destroy);
  return all;
}

bool keeps_known_words(const next_mutex& functions) noexcept {
  const saved_errno keep;
  const words held{mutex_taken, static_cast<int>(gettid()), 1};
  // Normal by attribute: the C library may elide other mutexes itself, and then their words show nothing.
  pthread_mutexattr_t normal{};
  pthread_mutex_t mutex{};
  bool known = pthread_mutexattr_init(&normal) == 0 &&
               pthread_mutexattr_settype(&normal, PTHREAD_MUTEX_NORMAL) == 0 &&
               functions.init(&mutex, &normal) == 0;
  pthread_mutexattr_destroy(&normal);
  known = known && mutex_words(mutex).is_plain() && !mutex_words(mutex).may_be_elided() &&
          locks_as_known(functions, mutex, held) && waits_as_known(mutex, held) &&
          functions.destroy(&mutex) == 0;
  pthread_mutex_t initialised = PTHREAD_MUTEX_INITIALIZER;
  known = known && mutex_words(initialised).is_plain() && mutex_words(initialised).may_be_elided() &&
          has(initialised, free_words);
  return known;
}

}  // namespace espalier::preload
