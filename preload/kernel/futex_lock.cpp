#include "preload/kernel/futex_lock.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/kernel/saved_errno.hpp"

namespace espalier::preload {

void futex_lock::wait_and_lock() noexcept {
  const saved_errno keep;
  while (word_.exchange(awaited, std::memory_order_acquire) != open) {
    syscall(SYS_futex, &word_, FUTEX_WAIT_PRIVATE, awaited, nullptr, nullptr, 0);
  }
}

void futex_lock::wake_one() noexcept {
  const saved_errno keep;
  syscall(SYS_futex, &word_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

}  // namespace espalier::preload
