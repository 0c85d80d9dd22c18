#pragma once

#include <cstddef>

namespace espalier::preload {

/// The size of a page on x86-64, the only architecture of preload/.
inline constexpr std::size_t page_bytes = 4096;

[[nodiscard]] constexpr std::size_t rounded_up(std::size_t bytes, std::size_t power_of_two) noexcept {
  return (bytes + power_of_two - 1) & ~(power_of_two - 1);
}

}  // namespace espalier::preload
