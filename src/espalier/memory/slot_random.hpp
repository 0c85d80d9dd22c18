#pragma once

#include <cstdint>

#include "espalier/hw/thread_slot.hpp"

namespace espalier {

/// Small random numbers for placements that disturb a layout; the same in every run for each thread slot. One
/// object for each thread (sync/per_thread.hpp).
class slot_random {
 public:
  static constexpr unsigned numbers = 8;

  /// The next number below `numbers`.
  [[nodiscard]] unsigned next() {
    if (state_ == 0) state_ = hw::thread_slot() + 1;
    // Knuth's linear congruential generator; its high bits are the most random.
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return static_cast<unsigned>(state_ >> 60U) % numbers;
  }

 private:
  std::uint64_t state_ = 0;
};

}  // namespace espalier
