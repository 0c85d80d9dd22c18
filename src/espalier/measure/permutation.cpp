#include "espalier/measure/permutation.hpp"

#include <bit>
#include <stdexcept>

#include "espalier/measure/random.hpp"

namespace espalier::measure {

namespace {

constexpr std::uint64_t mask_of(unsigned bits) noexcept { return (std::uint64_t{1} << bits) - 1; }

// Both halves have at most 32 bits, so that no shift reaches the width of the type.
unsigned bits_of(std::uint64_t size) noexcept { return static_cast<unsigned>(std::bit_width(size - 1)); }

}  // namespace

permutation::permutation(std::uint64_t size, std::uint64_t seed)
    : size_(size),
      low_bits_(bits_of(size) / 2),
      low_mask_(mask_of(low_bits_)),
      high_mask_(mask_of(bits_of(size) - low_bits_)) {
  if (size == 0) throw std::invalid_argument("a permutation of 0 elements; the size must be at least 1");
  random_generator random(seed, size);
  for (auto& key : keys_) key = random.next();
}

}  // namespace espalier::measure
