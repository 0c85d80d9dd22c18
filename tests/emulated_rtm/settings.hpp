#pragma once

#include <cstddef>
#include <cstdint>

namespace espalier::emulated_rtm {

/// What ESPALIER_EMULATED_RTM says: `name=number`, separated by commas. What it does not know ends the program, for a
/// test that runs otherwise than its author meant is worse than none.
struct settings {
  /// Every how manieth transaction is aborted at some step of it, as others would; 0 for none.
  std::uint32_t abort_every = 0;
  /// Of the first-level cache, which what a transaction writes has to fit.
  std::size_t sets = 64;
  std::size_t ways = 12;

  static settings from_environment() noexcept;
};

}  // namespace espalier::emulated_rtm
