#include "espalier/hw/pause.hpp"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>

namespace espalier::hw {
namespace {

/// A refused call, such as one for which a signal came, is a spurious return. The caller's errno stays.
void call_futex(const std::atomic<std::uint32_t>& word, int operation, std::uint32_t value) noexcept {
  const int kept = errno;
  syscall(SYS_futex, &word, operation | FUTEX_PRIVATE_FLAG, value, nullptr, nullptr, 0);
  errno = kept;
}

}  // namespace

void cpu_relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("isb" ::: "memory");
#endif
}

void park() noexcept { sched_yield(); }

static_assert(sizeof(std::atomic<std::uint32_t>) == 4, "the kernel sleeps on words of four bytes");

void wait_on(const std::atomic<std::uint32_t>& word, std::uint32_t seen) noexcept {
  call_futex(word, FUTEX_WAIT, seen);
}
void wake_one(const std::atomic<std::uint32_t>& word) noexcept { call_futex(word, FUTEX_WAKE, 1); }
void wake_all(const std::atomic<std::uint32_t>& word) noexcept { call_futex(word, FUTEX_WAKE, INT_MAX); }

}  // namespace espalier::hw
