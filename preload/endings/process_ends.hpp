#pragma once

#include <unistd.h>

#include <atomic>

namespace espalier::preload {

/// Each library defines it: called where the program ends by quick_exit(), _exit() or _Exit(), which run no destructors.
/// In a signal handler, in a child that shares its parent's memory, in several threads: whatever the program does.
void process_ends(const char* moment) noexcept;

/// What a process says once at its end. A child that shares its parent's memory, as vfork() makes them, says nothing,
/// and does not keep its parent from it.
class said_once {
 public:
  /// When the library starts, and in a child of fork().
  void begin() noexcept {
    process_ = getpid();
    said_.store(false, std::memory_order_relaxed);
  }
  /// True for the first one who is about to say it.
  [[nodiscard]] bool is_due() noexcept { return getpid() == process_ && !said_.exchange(true); }

 private:
  pid_t process_ = 0;
  std::atomic<bool> said_{false};
};

}  // namespace espalier::preload
