#pragma once

// Comparisons of many integers with one, by the vectors of the processor, for nodes whose fields other threads store.
//
// They use assembler, not the compiler's intrinsics: those need a target attribute and are then not inlined here, and
// their loads would be data races. A vector load of aligned integers loads each of them at once, as its own atomic load
// does, and no later load comes before it: the processors that have these instructions order loads.
//
// ThreadSanitizer sees only loads that the compiler knows, so under it there are no vectors.

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "espalier/hw/instrumentation.hpp"

namespace espalier::hw {

enum class vector_width : std::uint8_t { none, avx2, avx512 };

/// The widest that this processor has, and that there is code for.
[[nodiscard]] vector_width widest_vectors() noexcept;

namespace detail {
/// None until the library is initialised. Only tests and experiments store to it later.
extern std::atomic<vector_width> vectors_in_use;
}  // namespace detail

#if defined(ESPALIER_THREAD_SANITIZER)
inline namespace observed {
#else
inline namespace unobserved {
#endif

/// The vectors to use. Callers have code for none, too.
[[nodiscard]] inline vector_width vectors() noexcept {
#if defined(ESPALIER_THREAD_SANITIZER)
  return vector_width::none;
#else
  // relaxed: each width gives the same results.
  return detail::vectors_in_use.load(std::memory_order_relaxed);
#endif
}

#if defined(__x86_64__)
namespace vector_detail {

template <std::size_t Bytes>
struct bytes_of {
  unsigned char all[Bytes];
};
template <std::size_t Bytes>
[[nodiscard]] const bytes_of<Bytes>& at(const void* from) noexcept {
  return *static_cast<const bytes_of<Bytes>*>(from);
}

// Registers that only AVX-512 has: a caller compiled without it has nothing in them, and the state of the others stays.
#if defined(__AVX512F__)
#define ESPALIER_CLOBBERS_AVX512 "xmm16", "k1", "k2"
#else
#define ESPALIER_CLOBBERS_AVX512 "cc"
#endif
#if defined(__AVX__)
#define ESPALIER_END_AVX2 ""
#else
// To the compiler there are no upper halves: they must be clear, or each instruction behind it pays.
#define ESPALIER_END_AVX2 "vzeroupper\n\t"
#endif

/// Of 16 integers.
[[nodiscard, gnu::always_inline]] inline std::uint64_t not_above_avx512(const std::uint64_t* from,
                                                                        std::uint64_t k) noexcept {
  std::uint32_t mask = 0;  // NOLINT(misc-const-correctness): the instruction writes it
  __asm__ __volatile__(
      "vpbroadcastq %[k], %%zmm16\n\t"
      "vpcmpnltuq %[low], %%zmm16, %%k1\n\t"
      "vpcmpnltuq %[high], %%zmm16, %%k2\n\t"
      "kunpckbw %%k1, %%k2, %%k1\n\t"
      "kmovw %%k1, %[mask]"
      : [mask] "=r"(mask)
      : [k] "r"(k), [low] "m"(at<64>(from)), [high] "m"(at<64>(from + 8))
      : ESPALIER_CLOBBERS_AVX512);
  return mask;
}
/// Of 8 integers.
[[nodiscard, gnu::always_inline]] inline std::uint64_t not_above_avx2(const std::uint64_t* from,
                                                                      std::uint64_t k) noexcept {
  // There is only a signed comparison: both sides have their highest bit turned.
  constexpr std::uint64_t turned = std::uint64_t{1} << 63U;
  std::uint32_t low = 0;   // NOLINT(misc-const-correctness): as above
  std::uint32_t high = 0;  // NOLINT(misc-const-correctness)
  __asm__ __volatile__(
      "vmovq %[k], %%xmm0\n\t"
      "vpbroadcastq %%xmm0, %%ymm0\n\t"
      "vmovq %[turned], %%xmm1\n\t"
      "vpbroadcastq %%xmm1, %%ymm1\n\t"
      "vpxor %[first], %%ymm1, %%ymm2\n\t"
      "vpxor %[second], %%ymm1, %%ymm1\n\t"
      "vpcmpgtq %%ymm0, %%ymm2, %%ymm2\n\t"
      "vpcmpgtq %%ymm0, %%ymm1, %%ymm1\n\t"
      "vmovmskpd %%ymm2, %[low]\n\t"
      "vmovmskpd %%ymm1, %[high]\n\t" ESPALIER_END_AVX2
      : [low] "=r"(low), [high] "=r"(high)
      : [k] "r"(k ^ turned), [turned] "r"(turned), [first] "m"(at<32>(from)), [second] "m"(at<32>(from + 4))
      : "xmm0", "xmm1", "xmm2");
  return (low | high << 4U) ^ 0xffU;
}
#undef ESPALIER_CLOBBERS_AVX512
#undef ESPALIER_END_AVX2

}  // namespace vector_detail
#endif

/// Bit i tells whether the integer at i is not above `k`, of 64 integers. Requires vectors().
[[nodiscard, gnu::always_inline]] inline std::uint64_t not_above([[maybe_unused]] const std::uint64_t* from,
                                                                 [[maybe_unused]] std::uint64_t k) noexcept {
  std::uint64_t mask = 0;
#if defined(__x86_64__)
  if (vectors() == vector_width::avx512) {
    for (unsigned i = 0; i < 64; i += 16) mask |= vector_detail::not_above_avx512(from + i, k) << i;
  } else {
    for (unsigned i = 0; i < 64; i += 8) mask |= vector_detail::not_above_avx2(from + i, k) << i;
  }
#endif
  return mask;
}

/// How many bits are set. Without the instruction it is a call of the compiler's library.
[[nodiscard, gnu::always_inline]] inline unsigned ones(std::uint64_t mask) noexcept {
#if defined(__x86_64__) && !defined(__POPCNT__)
  if (vectors() != vector_width::none) {  // all processors with vectors have it
    std::uint64_t count = 0;              // NOLINT(misc-const-correctness): the instruction writes it
    __asm__("popcntq %[mask], %[count]" : [count] "=r"(count) : [mask] "r"(mask) : "cc");
    return static_cast<unsigned>(count);
  }
#endif
  return static_cast<unsigned>(std::popcount(mask));
}

}  // namespace observed or unobserved
}  // namespace espalier::hw
