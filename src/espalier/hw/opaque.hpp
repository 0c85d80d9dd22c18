#pragma once

namespace espalier::hw {

/// The same, but the compiler knows nothing of it. So it does not turn what made it true into a branch, which would be a
/// guess of the processor where the program has none.
[[nodiscard, gnu::always_inline]] inline bool opaque(bool value) noexcept {
  __asm__("" : "+r"(value));
  return value;
}

}  // namespace espalier::hw
