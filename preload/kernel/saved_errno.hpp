#pragma once

#include <cerrno>

namespace espalier::preload {

/// Saves errno and restores it at the end of its life.
class saved_errno {
 public:
  saved_errno() noexcept : before_(errno) {}
  ~saved_errno() { errno = before_; }
  saved_errno(const saved_errno&) = delete;
  saved_errno& operator=(const saved_errno&) = delete;

 private:
  int before_;
};

}  // namespace espalier::preload
