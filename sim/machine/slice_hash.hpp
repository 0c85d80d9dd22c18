#pragma once

// Which slice of a last-level cache holds an address. Intel spreads the addresses over one slice per core, or
// a pair of them, by XOR of address bits; the masks for 2, 4 and 8 slices are known from published
// measurements. Other counts are a model: the masks choose within the power of two that divides the count, and
// the line number modulo the odd rest chooses the rest.

#include <array>
#include <cstdint>

namespace espalier::sim {

inline constexpr std::array<std::uint64_t, 3> slice_masks{0x1b5f575440, 0x2eb5faa880, 0x3cccc93100};

/// The slice, from 0, of the line with this byte address; slices >= 1.
constexpr unsigned slice_hash(std::uint64_t address, unsigned slices) noexcept {
  if (slices == 1) {
    return 0;
  }
  unsigned slice = 0;
  unsigned rest = slices;
  for (unsigned bit = 0; bit < slice_masks.size() && rest % 2 == 0; ++bit, rest /= 2) {
    slice |= static_cast<unsigned>(__builtin_parityll(address & slice_masks[bit])) << bit;
  }
  if (rest == 1) {
    return slice;
  }
  return slice + (slices / rest) * static_cast<unsigned>((address >> 6) % rest);
}

}  // namespace espalier::sim
