#pragma once

#include <cstdint>

#include "espalier/hw/pause.hpp"

namespace espalier {

/// Randomised exponential backoff between attempts that other threads win. A local of the retrying operation:
/// the first wait is one pause, each later one is drawn from twice the range, up to a bound. At the bound the
/// thread yields the processor, so that a preempted holder can run.
class backoff {
 public:
  [[gnu::noinline]] void wait() noexcept {
    if (limit_ > spin_limit) {
      hw::park();
      return;
    }
    // The stack address differs between threads. Here, because most operations wait for none.
    if (limit_ == 1) state_ = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(this) >> 4) | 1U;
    // xorshift32 (Marsaglia 2003): quality hardly matters, but threads must differ.
    state_ ^= state_ << 13;
    state_ ^= state_ >> 17;
    state_ ^= state_ << 5;
    const std::uint32_t spins = 1 + state_ % limit_;
    for (std::uint32_t i = 0; i < spins; ++i) hw::cpu_relax();
    limit_ *= 2;
  }

 private:
  static constexpr std::uint32_t spin_limit = 512;
  std::uint32_t limit_ = 1;
  std::uint32_t state_ = 0;
};

}  // namespace espalier
