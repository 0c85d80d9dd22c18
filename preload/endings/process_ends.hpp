#pragma once

#include <unistd.h>

#include <atomic>

namespace espalier::preload {

/// Each library defines it. It is called where the program ends by quick_exit(), _exit() or _Exit(), which run no
/// destructors: possibly in a signal handler, in a child that shares its parent's memory, or in several threads.
void process_ends(const char* moment) noexcept;

/// Guards a message that a process writes once at its end. A child that shares its parent's memory, as after vfork(),
/// writes none, and does not prevent its parent's.
class said_once {
 public:
  /// Called when the library starts, and in a child of fork().
  void begin() noexcept {
    process_ = getpid();
    said_.store(false, std::memory_order_relaxed);
  }
  /// True for the first caller in the process that began.
  [[nodiscard]] bool is_due() noexcept { return getpid() == process_ && !said_.exchange(true); }

 private:
  pid_t process_ = 0;
  std::atomic<bool> said_{false};
};

}  // namespace espalier::preload
