#pragma once

#include <atomic>
#include <span>
#include <thread>

namespace espalier::test {

/// Stops threads for a moment, repeatedly, at any point. With few processors a schedule in which one thread stops in
/// the middle of an operation while others continue is otherwise rare. It uses signals with a handler that sleeps.
/// ThreadSanitizer delivers signals only at system calls, so there it has little effect.
///
/// Destroy it before the threads are joined; the threads may have ended by then.
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
