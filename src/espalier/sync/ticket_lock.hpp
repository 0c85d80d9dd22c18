#pragma once

#include <atomic>
#include <cstdint>

#include "espalier/hw/pause.hpp"
#include "espalier/sync/lock_concept.hpp"

namespace espalier {

// Orderings
//   (1) unlock (release) -> lock, try_lock (acquire): what one holder wrote is visible to the next.

/// First come, first served (Reed and Kanodia, CACM 1979). Every waiter spins on one word. It waits longer
/// between two loads the further back it stands. With more runnable threads than cores the next waiter may not
/// be running, hence the park. At most 65535 threads may wait at once.
class ticket_lock {
 public:
  void lock() noexcept {
    // relaxed: it only draws a number.
    const std::uint16_t mine = next_.fetch_add(1, std::memory_order_relaxed);
    for (std::uint32_t looks = 0;; ++looks) {
      // order (1): lock, acquire
      const std::uint16_t serving = serving_.load(std::memory_order_acquire);
      if (serving == mine) return;
      if (looks >= looks_before_park) {
        hw::park();
        continue;
      }
      const auto ahead = static_cast<std::uint16_t>(mine - serving);
      for (std::uint32_t i = 0; i < ahead * std::uint32_t{8}; ++i) hw::cpu_relax();
    }
  }

  [[nodiscard]] bool try_lock() noexcept {
    // order (1): try_lock, acquire: through serving_. relaxed: the exchange only claims the ticket, and fails once
    // another thread has taken one since: next_ then differs.
    std::uint16_t serving = serving_.load(std::memory_order_acquire);
    return next_.compare_exchange_strong(serving, static_cast<std::uint16_t>(serving + 1),
                                         std::memory_order_relaxed);
  }

  void unlock() noexcept {
    // order (1): unlock, release. relaxed: only the holder writes serving_.
    const std::uint16_t serving = serving_.load(std::memory_order_relaxed);
    serving_.store(static_cast<std::uint16_t>(serving + 1), std::memory_order_release);
  }

  // relaxed: what is read under the lock is ordered by taking it.
  [[nodiscard]] bool is_locked() const noexcept {
    return next_.load(std::memory_order_relaxed) != serving_.load(std::memory_order_relaxed);
  }

 private:
  static constexpr std::uint32_t looks_before_park = 64;
  std::atomic<std::uint16_t> next_{0};
  std::atomic<std::uint16_t> serving_{0};
};

static_assert(elidable<ticket_lock> && sizeof(ticket_lock) == 4,
              "the layout of a node, on which the measured figures rest, has changed");

}  // namespace espalier
