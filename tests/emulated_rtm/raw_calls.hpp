#pragma once

// System calls that leave errno and everything else of the C library alone, for handlers of signals that come at any
// instruction.

#include <linux/futex.h>
#include <sys/syscall.h>

#include <atomic>
#include <climits>
#include <cstdint>

namespace espalier::emulated_rtm {

/// The result, or minus the error.
inline long raw_call(long number, long a = 0, long b = 0, long c = 0, long d = 0) noexcept {
  long result = number;  // NOLINT(misc-const-correctness): the instruction writes it
  register const long fourth __asm__("r10") = d;
  __asm__ __volatile__("syscall"
                       : "+a"(result)
                       : "D"(a), "S"(b), "d"(c), "r"(fourth)
                       : "rcx", "r11", "memory");
  return result;
}

template <class T>
long as_argument(T* address) noexcept {
  return reinterpret_cast<long>(address);
}

inline int this_process() noexcept { return static_cast<int>(raw_call(SYS_getpid)); }
inline int this_thread() noexcept { return static_cast<int>(raw_call(SYS_gettid)); }
inline void let_others_run() noexcept { raw_call(SYS_sched_yield); }

inline void wait_while(const std::atomic<std::uint32_t>& word, std::uint32_t value) noexcept {
  raw_call(SYS_futex, as_argument(&word), FUTEX_WAIT_PRIVATE, value, 0);
}
inline void wake_all(const std::atomic<std::uint32_t>& word) noexcept {
  raw_call(SYS_futex, as_argument(&word), FUTEX_WAKE_PRIVATE, INT_MAX);
}

}  // namespace espalier::emulated_rtm
