#pragma once

#include <cstddef>

namespace espalier::preload {

/// Bytes of a page of x86-64, which is all that preload/ is for.
inline constexpr std::size_t page_bytes = 4096;

[[nodiscard]] constexpr std::size_t rounded_up(std::size_t bytes, std::size_t power_of_two) noexcept {
  return (bytes + power_of_two - 1) & ~(power_of_two - 1);
}

}  // namespace espalier::preload
