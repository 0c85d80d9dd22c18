#pragma once

#include <cerrno>

namespace espalier::preload {

/// Saves errno and restores it at the end of its life.
class kept_errno {
 public:
  kept_errno() noexcept : before_(errno) {}
  ~kept_errno() { errno = before_; }
  kept_errno(const kept_errno&) = delete;
  kept_errno& operator=(const kept_errno&) = delete;

 private:
  int before_;
};

}  // namespace espalier::preload
