#pragma once

#include <mutex>

#include "espalier/sync/lock_concept.hpp"

namespace espalier {

/// std::mutex as a lockable: waiters sleep in the kernel. std::mutex::unlock() is not noexcept, though it cannot
/// fail for the holder.
class std_mutex {
 public:
  /// Throws std::system_error where std::mutex does.
  void lock() { mutex_.lock(); }
  [[nodiscard]] bool try_lock() { return mutex_.try_lock(); }
  void unlock() noexcept { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

static_assert(lockable<std_mutex>);

}  // namespace espalier
