#pragma once

// The stores that a hardware thread has retired and that have not reached its cache.

#include <algorithm>
#include <cstdint>
#include <vector>

namespace espalier::sim {

/// A ring of completion times. Stores become visible in program order, at most one per cycle. The wait of a store for
/// its line overlaps those of earlier stores, because their requests are sent early.
class store_buffer {
 public:
  explicit store_buffer(unsigned places) : completions_(places, 0) {}

  /// Buffers a store at time `now`. Its line arrives `latency` cycles after the store has a place. Returns the cycles
  /// that the thread waits for a place.
  std::uint64_t push(std::uint64_t now, std::uint64_t latency) noexcept {
    // The store takes the place of the oldest, which is free once that store has completed.
    std::uint64_t& place = completions_[next_];
    const std::uint64_t wait = place > now ? place - now : 0;
    last_ = std::max(last_ + 1, now + wait + latency);
    place = last_;
    next_ = next_ + 1 == completions_.size() ? 0 : next_ + 1;
    return wait;
  }

  bool is_empty(std::uint64_t now) const noexcept { return last_ <= now; }

  /// The cycles from `now` until every buffered store is visible.
  std::uint64_t drain(std::uint64_t now) const noexcept { return last_ > now ? last_ - now : 0; }

 private:
  std::vector<std::uint64_t> completions_;
  std::size_t next_ = 0;
  std::uint64_t last_ = 0;
};

}  // namespace espalier::sim
