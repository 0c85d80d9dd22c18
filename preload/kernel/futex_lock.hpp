#pragma once

// Source: U. Drepper, Futexes are tricky, 2011, section 5, mutex 2.

#include <atomic>
#include <cstdint>

#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#endif

namespace espalier::preload {

/// True while no thread but the caller can take a lock. The C library knows, because it creates a process's second
/// thread.
inline bool alone_in_process() noexcept {
#if __has_include(<sys/single_threaded.h>)
  return __libc_single_threaded != 0;
#else
  return false;
#endif
}

/// A lock that needs only the kernel: no thread slot, no allocation, no start-up. pthread's mutexes would suffice,
/// but other preloaded libraries interpose their functions and may allocate there. errno is preserved. Not recursive;
/// a child of fork() resets what the forking thread held.
///
/// In a process of one thread it costs no locked instruction. A lock taken in that state may be released beside other
/// threads: the word has the same values.
class futex_lock {
 public:
  void lock() noexcept {
    // relaxed: a signal handler that interrupts here sees the thread inside, and takes no lock.
    if (alone_in_process() && word_.load(std::memory_order_relaxed) == open) [[likely]] {
      word_.store(taken, std::memory_order_relaxed);
      return;
    }
    std::uint32_t expected = open;
    // order: lock (acquire) <- unlock (release)
    if (!word_.compare_exchange_strong(expected, taken, std::memory_order_acquire, std::memory_order_relaxed))
      wait_and_lock();
  }

  bool try_lock() noexcept {
    std::uint32_t expected = open;
    return word_.compare_exchange_strong(expected, taken, std::memory_order_acquire,
                                         std::memory_order_relaxed);
  }

  void unlock() noexcept {
    if (alone_in_process()) [[likely]] {
      word_.store(open, std::memory_order_release);
      return;
    }
    // order: unlock (release) -> lock (acquire)
    if (word_.exchange(open, std::memory_order_release) == awaited) wake_one();
  }

 private:
  static constexpr std::uint32_t open = 0;
  static constexpr std::uint32_t taken = 1;
  static constexpr std::uint32_t awaited = 2;

  // Tests define them otherwise.
  void wait_and_lock() noexcept;
  void wake_one() noexcept;

  std::atomic<std::uint32_t> word_{open};
};

/// std::lock_guard without its header.
class futex_guard {
 public:
  explicit futex_guard(futex_lock& lock) noexcept : lock_(lock) { lock_.lock(); }
  ~futex_guard() { lock_.unlock(); }
  futex_guard(const futex_guard&) = delete;
  futex_guard& operator=(const futex_guard&) = delete;

 private:
  futex_lock& lock_;
};

}  // namespace espalier::preload
