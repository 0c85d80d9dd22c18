#pragma once

#include <atomic>
#include <cstdint>

#include "espalier/sync/per_thread.hpp"

namespace espalier {

/// A signed sum that many threads add to and few read. Each thread adds to a word of its own, so that
/// counting does not itself become the contended line.
class striped_counter {
 public:
  /// Throws std::bad_alloc at a thread's first call.
  void add(std::int64_t amount) {
    std::atomic<std::int64_t>& mine = stripes_.local();
    // relaxed, and no read-modify-write: only this thread writes the word; a sum has no order.
    mine.store(mine.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }

  /// The sum; exact when no thread is adding.
  [[nodiscard]] std::int64_t read() const noexcept {
    std::int64_t sum = 0;
    stripes_.for_each([&](std::uint32_t, const std::atomic<std::int64_t>& stripe) {
      sum += stripe.load(std::memory_order_relaxed);
    });
    return sum;
  }

 private:
  per_thread<std::atomic<std::int64_t>> stripes_;
};

}  // namespace espalier
