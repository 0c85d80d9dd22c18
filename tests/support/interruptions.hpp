#pragma once

#include <atomic>
#include <span>
#include <thread>

namespace espalier::test {

/// Stops threads for a moment, again and again, wherever they are: with few processors a schedule in which one
/// thread stands in the middle of an operation while others go on is otherwise rare. By signals, whose
/// handler sleeps. ThreadSanitizer delivers signals at system calls only, so there it does little.
///
/// Ends before the threads are joined; the threads may have ended by then.
class interruptions {
 public:
  explicit interruptions(std::span<std::thread> threads);
  interruptions(const interruptions&) = delete;
  interruptions& operator=(const interruptions&) = delete;
  ~interruptions();

 private:
  std::atomic<bool> end_{false};
  std::thread thread_;
};

}  // namespace espalier::test
