#pragma once

// Random numbers for workload threads: one small generator per thread, reproducible from (seed, stream).
//
// Sources: xoshiro256** of D. Blackman and S. Vigna, "Scrambled Linear Pseudorandom Number Generators",
// ACM TOMS 47(4), 2021; splitmix64 of G. Steele, D. Lea and C. Flood, OOPSLA 2014, with the finalizer
// constants of D. Stafford ("Mix13"); bounded numbers after D. Lemire, ACM TOMACS 29(1), 2019.

#include <array>
#include <bit>
#include <cstdint>
#include <limits>

namespace espalier::measure {

namespace detail {
__extension__ typedef unsigned __int128 uint128;  // NOLINT(modernize-use-using): only so is -Wpedantic silent
}

/// A bijection of the 64-bit integers in which every input bit affects every output bit. mix64(0) == 0.
constexpr std::uint64_t mix64(std::uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

/// A counter-based generator of 64-bit numbers, used here only to expand seeds.
class splitmix64 {
 public:
  explicit constexpr splitmix64(std::uint64_t state) noexcept : state_(state) {}
  constexpr std::uint64_t next() noexcept { return mix64(state_ += 0x9e3779b97f4a7c15U); }

 private:
  std::uint64_t state_;
};

/// xoshiro256**: period 2^256 - 1, no allocation, not for cryptography. One object belongs to one thread.
/// Models std::uniform_random_bit_generator.
class random_generator {
 public:
  using result_type = std::uint64_t;

  /// Threads of one run share `seed` and differ in `stream`.
  explicit constexpr random_generator(std::uint64_t seed, std::uint64_t stream = 0) noexcept {
    // A nested mix, because with plain sums (seed, stream + 1) and (seed + 1, stream) could coincide.
    splitmix64 expand(mix64(mix64(seed) + stream));
    for (auto& word : state_) word = expand.next();
  }

  /// Continues from a state, in which at least one word must not be 0.
  explicit constexpr random_generator(const std::array<std::uint64_t, 4>& state) noexcept : state_(state) {}

  constexpr std::uint64_t next() noexcept {
    const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const std::uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  /// An unbiased number in [0, n); n must not be 0. Divides only if a draw may have to be rejected.
  constexpr std::uint64_t below(std::uint64_t n) noexcept {
    auto product = detail::uint128{next()} * n;
    if (static_cast<std::uint64_t>(product) < n) {
      const std::uint64_t surplus = (0 - n) % n;
      while (static_cast<std::uint64_t>(product) < surplus) product = detail::uint128{next()} * n;
    }
    return static_cast<std::uint64_t>(product >> 64);
  }

  /// Multiple of 2^-53 in [0, 1).
  constexpr double unit() noexcept { return static_cast<double>(next() >> 11) * 0x1p-53; }

  constexpr std::uint64_t operator()() noexcept { return next(); }
  static constexpr std::uint64_t min() noexcept { return 0; }
  static constexpr std::uint64_t max() noexcept { return std::numeric_limits<std::uint64_t>::max(); }

 private:
  std::array<std::uint64_t, 4> state_{};
};

}  // namespace espalier::measure
