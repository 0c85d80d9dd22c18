#pragma once

// glibc's pthread_mutex_t in the form that its condition variables use: they unlock and lock the mutex inside the C
// library, where no call is interposed. Code that takes and releases mutexes by these words and this protocol need
// not interpose condition variables.
//
//   __lock    0 free, 1 taken, 2 taken and a thread may wait; a release that finds 2 wakes one waiter
//   __owner   the thread that holds it, 0 while it is free or elided
//   __nusers  threads that hold it or wait on a condition with it; pthread_mutex_destroy refuses unless it is 0
//   __kind    set by the initialiser and the attributes
//
// Source: glibc 2.36, sysdeps/nptl/bits/thread-shared-types.h and nptl/pthread_mutex_lock.c. keeps_known_words()
// checks it at run time.
//
// Takes a plain mutex by its words: test and test-and-set with growing pauses, as long as that is likely to be
// shorter than sleeping; then the futex, in glibc's protocol.
//
// Sources: L. Rudolph and Z. Segall, ISCA 1984; U. Drepper, Futexes are tricky, 2011, section 5, mutex 2. Deviation
// from the lock of D. Dice, T. Harris, A. Kogan and Y. Lev, 2015, which only spins: with more runnable threads than
// processors, spinning is no way to wait.

#include <pthread.h>
#include <time.h>

#include <atomic>
#include <cstddef>

namespace espalier::preload {

static_assert(sizeof(pthread_mutex_t) == 40 && alignof(pthread_mutex_t) == 8);
static_assert(offsetof(pthread_mutex_t, __data.__lock) == 0);
static_assert(offsetof(pthread_mutex_t, __data.__owner) == 8);
static_assert(offsetof(pthread_mutex_t, __data.__nusers) == 12);
static_assert(offsetof(pthread_mutex_t, __data.__kind) == 16);
static_assert(std::atomic_ref<int>::is_always_lock_free);

/// Values of the lock word.
inline constexpr int mutex_free = 0;
inline constexpr int mutex_taken = 1;
inline constexpr int mutex_awaited = 2;

class mutex_words {
 public:
  explicit mutex_words(pthread_mutex_t& mutex) noexcept : mutex_(mutex) {}

  [[nodiscard]] std::atomic_ref<int> lock_word() const noexcept {
    return std::atomic_ref<int>(mutex_.__data.__lock);
  }
  /// Its address, for the kernel.
  [[nodiscard]] int* futex() const noexcept { return &mutex_.__data.__lock; }
  [[nodiscard]] bool looks_free() const noexcept {
    // relaxed: the thread that takes it checks again; inside a transaction only the commit orders.
    return lock_word().load(std::memory_order_relaxed) == mutex_free;
  }
  /// Whether a thread may sleep until it is free.
  [[nodiscard]] bool looks_awaited() const noexcept {
    return lock_word().load(std::memory_order_relaxed) == mutex_awaited;
  }

  /// enter() is called after the lock word was taken, leave() before it is released. The words are plain: only the
  /// holder writes them.
  void enter(int owner) const noexcept {
    mutex_.__data.__owner = owner;
    ++mutex_.__data.__nusers;
  }
  void leave() const noexcept {
    mutex_.__data.__owner = 0;
    --mutex_.__data.__nusers;
  }

  /// Whether it is a mutex of the kind described above: default, normal or adaptive, neither shared between processes
  /// nor robust nor with a priority protocol. Other kinds have a different order of operations.
  [[nodiscard]] bool is_plain() const noexcept {
    const int kind = this->kind() & ~(eliding_kind | not_eliding_kind);
    return kind == PTHREAD_MUTEX_TIMED_NP || kind == PTHREAD_MUTEX_ADAPTIVE_NP;
  }
  /// Whether sections of a plain mutex may be elided. They may not where the program asked for PTHREAD_MUTEX_NORMAL,
  /// which deadlocks when its holder locks it again. Nor may they where glibc elides the mutex: its condition
  /// variables then end the transaction in which they find it free.
  [[nodiscard]] bool may_be_elided() const noexcept {
    return (kind() & (eliding_kind | not_eliding_kind)) == 0;
  }

 private:
  // Set by glibc: it elides this mutex itself (tunable glibc.elision.enable), or it must not be elided.
  static constexpr int eliding_kind = 256;
  static constexpr int not_eliding_kind = 512;

  [[nodiscard]] int kind() const noexcept {
    // relaxed: it changes only while the mutex is unused, or by glibc's own eliding_kind.
    return std::atomic_ref<int>(mutex_.__data.__kind).load(std::memory_order_relaxed);
  }

  pthread_mutex_t& mutex_;
};

/// Takes a mutex that is not elided, and releases it.
void acquire(mutex_words mutex, int owner) noexcept;
[[nodiscard]] bool try_acquire(mutex_words mutex, int owner) noexcept;
void release(mutex_words mutex) noexcept;

/// Waits until a moment of CLOCK_REALTIME or CLOCK_MONOTONIC. 0; ETIMEDOUT; EINVAL for another clock, or where it would
/// have to wait and the moment is invalid. With a moment in the past it still takes a free mutex. errno is preserved.
[[nodiscard]] int acquire_until(mutex_words mutex, int owner, clockid_t clock,
                                const timespec& moment) noexcept;

/// Whether this clock can limit a wait.
[[nodiscard]] constexpr bool is_waitable(clockid_t clock) noexcept {
  return clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC;
}

/// The functions that the program would have without this library: the next definition of each in the dynamic
/// linker's order.
struct next_mutex {
  int (*lock)(pthread_mutex_t*);
  int (*trylock)(pthread_mutex_t*);
  int (*timedlock)(pthread_mutex_t*, const timespec*);
  int (*clocklock)(pthread_mutex_t*, clockid_t, const timespec*);
  int (*unlock)(pthread_mutex_t*);
  int (*init)(pthread_mutex_t*, const pthread_mutexattr_t*);
  int (*destroy)(pthread_mutex_t*);
};

/// Finds the functions. False where one is missing.
[[nodiscard]] bool look_up(next_mutex& to) noexcept;

/// Whether these functions, and the condition variables of this process, use the words of a mutex as described
/// above. It takes a few mutexes of its own; no thread waits.
[[nodiscard]] bool keeps_known_words(const next_mutex& functions) noexcept;

}  // namespace espalier::preload
