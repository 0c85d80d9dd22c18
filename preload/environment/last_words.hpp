#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

#include "preload/environment/quiet_writing.hpp"

namespace espalier::preload {

/// Writes the whole text without raising a signal. False where that is impossible, with errno as write() set it.
inline bool write_whole(int descriptor, const char* text, std::size_t size) noexcept {
  const quiet_writing quiet;
  while (size > 0) {
    const ssize_t written = write(descriptor, text, size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text += written;
    size -= static_cast<std::size_t>(written);
  }
  return true;
}

/// Standard error for messages after all else has ended. Many programs close theirs before, and some have then opened
/// a file of their own under its number.
class last_words {
 public:
  /// Duplicates standard error's descriptor to a number far from those that programs expect.
  void keep() noexcept {
    constexpr int far = 500;
    constexpr int behind_those_of_scripts = 10;  // where few numbers are allowed
    descriptor_ = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, far);
    if (descriptor_ < 0) descriptor_ = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, behind_those_of_scripts);
    if (descriptor_ < 0) descriptor_ = STDERR_FILENO;
    known_ = fstat(descriptor_, &kept_) == 0;
  }

  /// The descriptor for messages; -1 where it no longer is standard error's file, for then it is the program's.
  [[nodiscard]] int descriptor() const noexcept {
    struct stat now{};
    const bool same =
        known_ && fstat(descriptor_, &now) == 0 && now.st_dev == kept_.st_dev && now.st_ino == kept_.st_ino;
    return same ? descriptor_ : -1;
  }

  void say(const char* text, std::size_t size) const noexcept {
    if (const int to = descriptor(); to >= 0) write_whole(to, text, size);
  }

 private:
  int descriptor_ = STDERR_FILENO;
  bool known_ = false;
  struct stat kept_{};
};

}  // namespace espalier::preload
