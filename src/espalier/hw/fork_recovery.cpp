#include "espalier/hw/fork_recovery.hpp"

#include <pthread.h>

#include <atomic>
#include <mutex>

namespace espalier::hw {

struct fork_registry {
  // Constant-initialised and trivially destructible: objects in static storage may join before it and leave after it.
  static constinit std::mutex lock;
  static constinit fork_link* first;

  static void prepare() noexcept { lock.lock(); }
  static void in_parent() noexcept { lock.unlock(); }
  static void in_child() noexcept {
    const fork_survivor survivor{detail::held_thread_slot()};
    for (const fork_link* one = first; one != nullptr; one = one->after_)
      one->recover_(one->object_, survivor);
    // Last: until then the slots say which threads are lost.
    detail::forget_other_threads();
    lock.unlock();
  }
};

constinit std::mutex fork_registry::lock;
constinit fork_link* fork_registry::first = nullptr;

void watch_forks() noexcept {
  enum class state : std::uint8_t { unknown_to_fork, being_registered, registered };
  static constinit std::atomic<state> now{state::unknown_to_fork};
  // relaxed: a thread that finds another one registering need not wait. A fork in between counts as one before.
  state seen = now.load(std::memory_order_relaxed);
  if (seen != state::unknown_to_fork ||
      !now.compare_exchange_strong(seen, state::being_registered, std::memory_order_relaxed))
    return;
  // Not under the lock: fork() may hold a lock of its own that registering takes.
  const bool done =
      pthread_atfork(fork_registry::prepare, fork_registry::in_parent, fork_registry::in_child) == 0;
  // relaxed: as above.
  now.store(done ? state::registered : state::unknown_to_fork, std::memory_order_relaxed);
}

namespace {

/// As early as possible: handlers that a program registers later lock before ours, and run in the child after ours.
[[maybe_unused]] const bool from_the_start = (watch_forks(), true);

}  // namespace

void fork_link::join(void* object, recover_function recover) noexcept {
  watch_forks();
  const std::lock_guard hold(fork_registry::lock);
  if (recover_ != nullptr) return;
  object_ = object;
  recover_ = recover;
  before_ = nullptr;
  after_ = fork_registry::first;
  if (after_ != nullptr) after_->before_ = this;
  fork_registry::first = this;
}

void fork_link::leave() noexcept {
  const std::lock_guard hold(fork_registry::lock);
  if (recover_ == nullptr) return;
  (before_ == nullptr ? fork_registry::first : before_->after_) = after_;
  if (after_ != nullptr) after_->before_ = before_;
  recover_ = nullptr;
}

}  // namespace espalier::hw
