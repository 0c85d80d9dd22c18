#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>

namespace espalier::preload {

/// Standard error for what is told when everything else has ended: many programs close theirs before.
class last_words {
 public:
  /// Keeps a descriptor of standard error's, far from those that programs count on.
  void keep() noexcept {
    constexpr int far = 500;
    descriptor_ = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, far);
    if (descriptor_ < 0 || fstat(descriptor_, &kept_) != 0) descriptor_ = STDERR_FILENO;
  }

  /// In one piece. A program that closed all descriptors and opened another there is left alone.
  void say(const char* text, std::size_t size) const noexcept {
    struct stat now{};
    if (descriptor_ != STDERR_FILENO &&
        (fstat(descriptor_, &now) != 0 || now.st_dev != kept_.st_dev || now.st_ino != kept_.st_ino))
      return;
    if (write(descriptor_, text, size) < 0) return;
  }

 private:
  int descriptor_ = STDERR_FILENO;
  struct stat kept_{};
};

}  // namespace espalier::preload
