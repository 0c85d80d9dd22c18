#pragma once

#include <atomic>
#include <cassert>
#include <cstdint>

#include "espalier/sync/backoff.hpp"
#include "espalier/sync/lock_concept.hpp"

namespace espalier {

// Orderings
//   (1) unlock (release) -> try_lock (acquire): what one holder wrote is visible to the next.

/// Test-and-test-and-set spin lock with backoff (Rudolph and Segall, ISCA 1984; Anderson, TPDS 1990). Four
/// bytes, so that a tree node can carry one. Not fair. Waiters read a shared line until it is released.
class ttas_lock {
 public:
  void lock() noexcept {
    for (backoff pause; !try_lock(); pause.wait()) {
    }
  }

  [[nodiscard]] bool try_lock() noexcept {
    // order (1): try_lock, acquire. relaxed: the load only decides whether the exchange is worth its transfer of the
    // cache line.
    return held_.load(std::memory_order_relaxed) == 0 && held_.exchange(1, std::memory_order_acquire) == 0;
  }

  void unlock() noexcept {
    assert(is_locked() && "a lock that is free is not released");
    // order (1): unlock, release
    held_.store(0, std::memory_order_release);
  }

  // relaxed: what is read under the lock is ordered by taking it.
  [[nodiscard]] bool is_locked() const noexcept { return held_.load(std::memory_order_relaxed) != 0; }

 private:
  std::atomic<std::uint32_t> held_{0};
};

static_assert(elidable<ttas_lock> && sizeof(ttas_lock) == 4,
              "the layout of a node, on which the measured figures rest, has changed");

}  // namespace espalier
