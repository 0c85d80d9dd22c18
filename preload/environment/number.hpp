#pragma once

#include <cstdint>

namespace espalier::preload {

/// Reads a whole decimal number up to `most`, and nothing else. On failure `to` is unspecified.
[[nodiscard]] inline bool read_number(const char* text, std::uint64_t most, std::uint64_t& to) noexcept {
  if (*text == 0) return false;
  std::uint64_t value = 0;
  for (; *text != 0; ++text) {
    if (*text < '0' || *text > '9') return false;
    const auto digit = static_cast<std::uint64_t>(*text - '0');
    if (value > (most - digit) / 10) return false;
    value = 10 * value + digit;
  }
  to = value;
  return value <= most;
}

}  // namespace espalier::preload
