#pragma once

#include <array>
#include <cassert>
#include <cstdint>

namespace espalier::measure {

/// A seeded bijection of [0, size) for any size from 1 to 2^64 - 1, in constant memory: a Feistel network over the next
/// power of two, followed along its cycle until the value is in the range (J. Black and P. Rogaway, CT-RSA 2002). A
/// call takes fewer than two passes on average. Immutable, shared by threads.
class permutation {
 public:
  /// Throws std::invalid_argument if size is 0.
  explicit permutation(std::uint64_t size, std::uint64_t seed = 0);

  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }

  /// The image of index, which must be below size().
  std::uint64_t operator()(std::uint64_t index) const noexcept {
    assert(index < size_);
    do {
      index = shuffle(index);
    } while (index >= size_);
    return index;
  }

 private:
  static std::uint64_t scatter(std::uint64_t half, std::uint64_t key) noexcept {
    std::uint64_t x = (half + key) * 0x9e3779b97f4a7c15U;
    x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93U;
    return x >> 32;
  }

  // Each step changes one half by a function of the other, so that it can be undone for any widths. Luby and Rackoff
  // need four steps for a strong pseudo-random permutation.
  std::uint64_t shuffle(std::uint64_t index) const noexcept {
    std::uint64_t low = index & low_mask_;
    std::uint64_t high = index >> low_bits_;
    low ^= scatter(high, keys_[0]) & low_mask_;
    high ^= scatter(low, keys_[1]) & high_mask_;
    low ^= scatter(high, keys_[2]) & low_mask_;
    high ^= scatter(low, keys_[3]) & high_mask_;
    return (high << low_bits_) | low;
  }

  std::uint64_t size_;
  unsigned low_bits_;
  std::uint64_t low_mask_;
  std::uint64_t high_mask_;
  std::array<std::uint64_t, 4> keys_{};
};

}  // namespace espalier::measure
