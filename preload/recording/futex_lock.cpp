#include "preload/recording/futex_lock.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace espalier::preload {

void futex_lock::wait_and_lock() noexcept {
  const int kept = errno;
  while (word_.exchange(awaited, std::memory_order_acquire) != open) {
    syscall(SYS_futex, &word_, FUTEX_WAIT_PRIVATE, awaited, nullptr, nullptr, 0);
  }
  errno = kept;
}

void futex_lock::wake_one() noexcept {
  const int kept = errno;
  syscall(SYS_futex, &word_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  errno = kept;
}

}  // namespace espalier::preload
