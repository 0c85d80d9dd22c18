#pragma once

#include <cstdint>

namespace espalier::sim {

/// Bytes of a line as bits: `bytes` of them from `offset` on; 1 <= bytes, offset + bytes <= 64.
[[nodiscard]] constexpr std::uint64_t byte_mask(std::uint64_t offset, std::uint64_t bytes) noexcept {
  return ~std::uint64_t{0} >> (64 - bytes) << offset;
}

}  // namespace espalier::sim
