#pragma once

// glibc's pthread_mutex_t as its condition variables know it: they unlock and lock the mutex inside the C library,
// past any interposition. Whoever takes and gives back mutexes by these words, and in this protocol, needs to
// interpose no condition variable.
//
//   __lock    0 free, 1 taken, 2 taken and somebody may wait; who finds 2 when giving back wakes one waiter
//   __owner   the thread that has it, 0 while it is free or elided
//   __nusers  threads that have it or wait on a condition with it; pthread_mutex_destroy refuses unless it is 0
//   __kind    what the initialiser and the attributes said
//
// Source: glibc 2.36, sysdeps/nptl/bits/thread-shared-types.h and nptl/pthread_mutex_lock.c. elision/layout_probe looks
// at run time whether it is so.

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

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
    // relaxed: whoever takes it looks again; inside a transaction nothing is ordered but by the commit.
    return lock_word().load(std::memory_order_relaxed) == mutex_free;
  }
  /// Whether somebody may sleep until it is free.
  [[nodiscard]] bool looks_awaited() const noexcept {
    return lock_word().load(std::memory_order_relaxed) == mutex_awaited;
  }

  /// After the lock word was taken, and before it is given back. Plain words for everybody but the holder.
  void enter(int owner) const noexcept {
    mutex_.__data.__owner = owner;
    ++mutex_.__data.__nusers;
  }
  void leave() const noexcept {
    mutex_.__data.__owner = 0;
    --mutex_.__data.__nusers;
  }

  /// Whether it is a mutex of the kind described above: default, normal or adaptive, and neither shared between
  /// processes nor robust nor with a protocol. Others have an order of operations of their own.
  [[nodiscard]] bool is_plain() const noexcept {
    const int kind = this->kind() & ~(eliding_kind | not_eliding_kind);
    return kind == PTHREAD_MUTEX_TIMED_NP || kind == PTHREAD_MUTEX_ADAPTIVE_NP;
  }
  /// Whether sections of a plain mutex may be elided: not where the program asked for PTHREAD_MUTEX_NORMAL, which
  /// deadlocks when its holder locks it again; nor where glibc elides it, whose condition variables then end the
  /// transaction in which they find it free.
  [[nodiscard]] bool may_be_elided() const noexcept {
    return (kind() & (eliding_kind | not_eliding_kind)) == 0;
  }

 private:
  // Set by glibc: that it elides this mutex itself (tunable glibc.elision.enable), and that it is not to be elided.
  static constexpr int eliding_kind = 256;
  static constexpr int not_eliding_kind = 512;

  [[nodiscard]] int kind() const noexcept {
    // relaxed: changes only while nobody uses the mutex, or by glibc's own eliding_kind.
    return std::atomic_ref<int>(mutex_.__data.__kind).load(std::memory_order_relaxed);
  }

  pthread_mutex_t& mutex_;
};

}  // namespace espalier::preload
