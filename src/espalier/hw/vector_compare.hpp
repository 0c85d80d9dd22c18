#pragma once

// Comparisons of many integers with one, by the vectors of the processor, for nodes whose fields other threads store.
//
// They use assembler, not the compiler's intrinsics: those need a target attribute and are then not inlined here, and
// their loads would be data races. A vector load of aligned integers loads each of them at once, as its own atomic load
// does, and no later load comes before it: the processors that have these instructions order loads.
//
// ThreadSanitizer sees only loads that the compiler knows, so under it there are no vectors.

#include <atomic>
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

// To a caller that is compiled without AVX-512 the registers that only it has are empty, and those of AVX have no upper
// halves: these must be clear, or each instruction behind them pays.
#if defined(__AVX512F__)
#define ESPALIER_CLOBBERS_AVX512 "xmm16", "k1", "k2"
#else
#define ESPALIER_CLOBBERS_AVX512 "cc"
#endif
#if defined(__AVX__)
#define ESPALIER_END_AVX2 ""
#else
#define ESPALIER_END_AVX2 "vzeroupper\n\t"
#endif

[[nodiscard, gnu::always_inline]] inline std::size_t count_not_above_avx512(const std::uint64_t* from,
                                                                            std::uint64_t k) noexcept {
  std::uint64_t count = 0;  // NOLINT(misc-const-correctness): the instructions write it
  __asm__ __volatile__(
      "vpbroadcastq %[k], %%zmm16\n\t"
      "vpcmpnltuq %[low], %%zmm16, %%k1\n\t"
      "vpcmpnltuq %[high], %%zmm16, %%k2\n\t"
      "kunpckbw %%k1, %%k2, %%k1\n\t"
      "kmovw %%k1, %k[count]\n\t"
      "popcntl %k[count], %k[count]"
      : [count] "=r"(count)
      : [k] "r"(k), [low] "m"(at<64>(from)), [high] "m"(at<64>(from + 8))
      : "cc", ESPALIER_CLOBBERS_AVX512);
  return count;
}
/// There is only a signed comparison: both sides have their highest bit turned. Each integer that is above gives two bytes.
[[nodiscard, gnu::always_inline]] inline std::size_t count_not_above_avx2(const std::uint64_t* from,
                                                                          std::uint64_t k) noexcept {
  constexpr std::uint64_t turned = std::uint64_t{1} << 63U;
  std::uint64_t above = 0;  // NOLINT(misc-const-correctness): as before
  __asm__ __volatile__(
      "vmovq %[k], %%xmm0\n\t"
      "vpbroadcastq %%xmm0, %%ymm0\n\t"
      "vmovq %[turned], %%xmm1\n\t"
      "vpbroadcastq %%xmm1, %%ymm1\n\t"
      "vpxor %[first], %%ymm1, %%ymm2\n\t"
      "vpxor %[second], %%ymm1, %%ymm3\n\t"
      "vpxor %[third], %%ymm1, %%ymm4\n\t"
      "vpxor %[fourth], %%ymm1, %%ymm1\n\t"
      "vpcmpgtq %%ymm0, %%ymm2, %%ymm2\n\t"
      "vpcmpgtq %%ymm0, %%ymm3, %%ymm3\n\t"
      "vpcmpgtq %%ymm0, %%ymm4, %%ymm4\n\t"
      "vpcmpgtq %%ymm0, %%ymm1, %%ymm1\n\t"
      "vpackssdw %%ymm3, %%ymm2, %%ymm2\n\t"
      "vpackssdw %%ymm1, %%ymm4, %%ymm4\n\t"
      "vpacksswb %%ymm4, %%ymm2, %%ymm2\n\t"
      "vpmovmskb %%ymm2, %k[above]\n\t" ESPALIER_END_AVX2 "popcntl %k[above], %k[above]"
      : [above] "=&r"(above)
      : [k] "r"(k ^ turned), [turned] "r"(turned), [first] "m"(at<32>(from)), [second] "m"(at<32>(from + 4)),
        [third] "m"(at<32>(from + 8)), [fourth] "m"(at<32>(from + 12))
      : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4");
  return 16 - above / 2;
}
[[nodiscard, gnu::always_inline]] inline unsigned equal_to_avx2(const std::uint64_t* from,
                                                                std::uint64_t k) noexcept {
  std::uint64_t mask = 0;  // NOLINT(misc-const-correctness): as before
  __asm__ __volatile__(
      "vmovq %[k], %%xmm0\n\t"
      "vpbroadcastq %%xmm0, %%ymm0\n\t"
      "vpcmpeqq %[all], %%ymm0, %%ymm0\n\t"
      "vmovmskpd %%ymm0, %k[mask]\n\t" ESPALIER_END_AVX2
      : [mask] "=r"(mask)
      : [k] "r"(k), [all] "m"(at<32>(from))
      : "memory", "xmm0");  // no later load before it: the caller validates what it has found
  return static_cast<unsigned>(mask);
}
[[nodiscard, gnu::always_inline]] inline unsigned equal_to_first_of_pairs_avx2(const std::uint64_t* from,
                                                                               std::uint64_t k) noexcept {
  std::uint64_t mask = 0;  // NOLINT(misc-const-correctness): as before
  // The vector of first words has them in the order 0, 2, 1, 3.
  __asm__ __volatile__(
      "vmovdqa %[low], %%ymm1\n\t"
      "vmovq %[k], %%xmm0\n\t"
      "vpunpcklqdq %[high], %%ymm1, %%ymm1\n\t"
      "vpbroadcastq %%xmm0, %%ymm0\n\t"
      "vpermq $0xd8, %%ymm1, %%ymm1\n\t"
      "vpcmpeqq %%ymm1, %%ymm0, %%ymm0\n\t"
      "vmovmskpd %%ymm0, %k[mask]\n\t" ESPALIER_END_AVX2
      : [mask] "=r"(mask)
      : [k] "r"(k), [low] "m"(at<32>(from)), [high] "m"(at<32>(from + 4))
      : "memory", "xmm0", "xmm1");
  return static_cast<unsigned>(mask);
}
[[nodiscard, gnu::always_inline]] inline unsigned equal_highest_avx2(const std::uint64_t* from,
                                                                     std::uint64_t tag) noexcept {
  std::uint64_t low_mask = 0;   // NOLINT(misc-const-correctness): as before
  std::uint64_t high_mask = 0;  // NOLINT(misc-const-correctness): as before
  __asm__ __volatile__(
      "vmovq %[tag], %%xmm0\n\t"
      "vmovdqa %[low], %%ymm1\n\t"
      "vmovdqa %[high], %%ymm2\n\t"
      "vpbroadcastq %%xmm0, %%ymm0\n\t"
      "vpsrlq $48, %%ymm1, %%ymm1\n\t"
      "vpsrlq $48, %%ymm2, %%ymm2\n\t"
      "vpcmpeqq %%ymm1, %%ymm0, %%ymm1\n\t"
      "vpcmpeqq %%ymm2, %%ymm0, %%ymm2\n\t"
      "vmovmskpd %%ymm1, %k[low_mask]\n\t"
      "vmovmskpd %%ymm2, %k[high_mask]\n\t" ESPALIER_END_AVX2
      : [low_mask] "=r"(low_mask), [high_mask] "=r"(high_mask)
      : [tag] "r"(tag), [low] "m"(at<32>(from)), [high] "m"(at<32>(from + 4))
      : "memory", "xmm0", "xmm1", "xmm2");
  return static_cast<unsigned>(low_mask | high_mask << 4U);
}
#undef ESPALIER_CLOBBERS_AVX512
#undef ESPALIER_END_AVX2

}  // namespace vector_detail
#endif

/// How many of 16 integers are not above `k`. `width` is one that vectors() may be, but not none.
[[nodiscard, gnu::always_inline]] inline std::size_t count_not_above(
    [[maybe_unused]] const std::uint64_t* from, [[maybe_unused]] std::uint64_t k,
    [[maybe_unused]] vector_width width) noexcept {
#if defined(__x86_64__)
  return width == vector_width::avx512 ? vector_detail::count_not_above_avx512(from, k)
                                       : vector_detail::count_not_above_avx2(from, k);
#else
  return 0;
#endif
}

/// Bit i tells whether the integer at i is `k`, of 8 integers. Requires that vectors() are not none.
[[nodiscard, gnu::always_inline]] inline unsigned equal_to([[maybe_unused]] const std::uint64_t* from,
                                                           [[maybe_unused]] std::uint64_t k) noexcept {
#if defined(__x86_64__)
  return vector_detail::equal_to_avx2(from, k) | vector_detail::equal_to_avx2(from + 4, k) << 4U;
#else
  return 0;
#endif
}

/// Bit i tells whether the first integer of the pair at i is `k`, of 4 pairs. Requires that vectors() are not none.
[[nodiscard, gnu::always_inline]] inline unsigned equal_to_first_of_pairs(
    [[maybe_unused]] const std::uint64_t* from, [[maybe_unused]] std::uint64_t k) noexcept {
#if defined(__x86_64__)
  return vector_detail::equal_to_first_of_pairs_avx2(from, k);
#else
  return 0;
#endif
}

/// Bit i tells whether the highest 16 bits of the integer at i are `tag`, of 8 integers. Requires that vectors() are not
/// none.
[[nodiscard, gnu::always_inline]] inline unsigned equal_highest([[maybe_unused]] const std::uint64_t* from,
                                                                [[maybe_unused]] std::uint64_t tag) noexcept {
#if defined(__x86_64__)
  return vector_detail::equal_highest_avx2(from, tag);
#else
  return 0;
#endif
}

}  // namespace observed or unobserved
}  // namespace espalier::hw
