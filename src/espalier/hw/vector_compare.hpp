#pragma once

// Comparisons of many integers with one, by the vectors of the processor, for nodes whose fields other threads store.
//
// Loads are assembler: loads by the compiler's intrinsics would be data races. On x86 all of a comparison is assembler,
// because intrinsics need a target attribute there and are then not inlined here.
//
// A vector load of aligned integers loads each of them at once, as its own atomic load does. On AArch64 a load of 128 bits
// that are aligned to 64 is a pair of single-copy atomic reads of 64 bits (Arm Architecture Reference Manual, B2.2.1).
//
// On x86 no later load of the caller comes before these: the processors that have these instructions order loads. AArch64
// keeps the order only where an address depends on what was loaded, or a fence stands between:
//   count_below()      has no fence. A caller that takes the count for a hint loads a child next, whose address depends on
//                      all keys. A caller that validates what it has read needs an acquire fence before it validates.
//   the others         have a fence: the address of what the caller loads next need not depend on any of the integers.
//
// ThreadSanitizer sees only loads that the compiler knows, so under it there are no vectors.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "espalier/hw/instrumentation.hpp"

#if defined(__AARCH64EL__)
#include <arm_neon.h>
#endif

namespace espalier::hw {

enum class vector_width : std::uint8_t { none, neon, avx2, avx512 };

/// Whether this processor has these vectors, and there is code for them; also true of none.
[[nodiscard]] bool has_vectors(vector_width width) noexcept;
/// The widest of them.
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

namespace vector_detail {

template <std::size_t Bytes>
struct bytes_of {
  unsigned char all[Bytes];
};
template <std::size_t Bytes>
[[nodiscard]] const bytes_of<Bytes>& at(const void* from) noexcept {
  return *static_cast<const bytes_of<Bytes>*>(from);
}

#if defined(__x86_64__)

// To a caller that is compiled without AVX-512 the registers that only it has are empty.
#if defined(__AVX512F__)
#define ESPALIER_CLOBBERS_AVX512 "xmm16", "xmm17", "k1", "k2"
#else
#define ESPALIER_CLOBBERS_AVX512 "cc"
#endif
/// To a caller that is compiled without AVX its registers have no upper halves: these must be clear, or each instruction
/// behind them pays.
[[gnu::always_inline]] inline void end_avx2() noexcept {
#if !defined(__AVX__)
  __asm__ __volatile__("vzeroupper");
#endif
}

// The integer in each element of a vector; where the compiler does not know such vectors, in the first element of one that it
// knows, or in none. It is made once for a search of several steps.
#if defined(__AVX512F__)
using spread_512 [[gnu::vector_size(64)]] = long long;
[[nodiscard, gnu::always_inline]] inline spread_512 spread_avx512(std::int64_t k) noexcept {
  return spread_512{} + static_cast<long long>(k);
}
#define ESPALIER_SPREAD_AVX512 ""
#define ESPALIER_K_IN_AVX512 "v"
#define ESPALIER_BELOW_AVX512(integers, mask) "vpcmpgtq %[" integers "], %[k], %%" mask "\n\t"
#else
[[nodiscard, gnu::always_inline]] inline std::int64_t spread_avx512(std::int64_t k) noexcept { return k; }
#define ESPALIER_SPREAD_AVX512 "vpbroadcastq %[k], %%zmm16\n\t"
#define ESPALIER_K_IN_AVX512 "r"
#define ESPALIER_BELOW_AVX512(integers, mask) "vpcmpgtq %[" integers "], %%zmm16, %%" mask "\n\t"
#endif
#if defined(__AVX2__)
using spread_256 [[gnu::vector_size(32)]] = long long;
[[nodiscard, gnu::always_inline]] inline spread_256 spread_avx2(std::int64_t k) noexcept {
  return spread_256{} + static_cast<long long>(k);
}
#define ESPALIER_SPREAD_AVX2 ""
#define ESPALIER_BELOW_AVX2(integers, all_bits) "vpcmpgtq %[" integers "], %[k], %%" all_bits "\n\t"
#else
using spread_128 [[gnu::vector_size(16)]] = long long;
[[nodiscard, gnu::always_inline]] inline spread_128 spread_avx2(std::int64_t k) noexcept {
  return spread_128{static_cast<long long>(k), 0};
}
#define ESPALIER_SPREAD_AVX2 "vpbroadcastq %[k], %%ymm0\n\t"
#define ESPALIER_BELOW_AVX2(integers, all_bits) "vpcmpgtq %[" integers "], %%ymm0, %%" all_bits "\n\t"
#endif

template <std::size_t Scale>
[[nodiscard, gnu::always_inline]] inline std::size_t count_below_avx512(const std::int64_t* from,
                                                                        std::int64_t k) noexcept {
  std::uint64_t count = 0;  // NOLINT(misc-const-correctness): the instructions write it
  __asm__ __volatile__(
      ESPALIER_SPREAD_AVX512              //
      ESPALIER_BELOW_AVX512("low", "k1")  //
      ESPALIER_BELOW_AVX512("high", "k2")
      "kunpckbw %%k1, %%k2, %%k1\n\t"
      "kmovw %%k1, %k[count]\n\t"
      "popcntl %k[count], %k[count]"
      : [count] "=r"(count)
      : [k] ESPALIER_K_IN_AVX512(spread_avx512(k)), [low] "m"(at<64>(from)), [high] "m"(at<64>(from + 8))
      : "cc", ESPALIER_CLOBBERS_AVX512);
  return count * Scale;
}
template <std::size_t Scale, bool Ends>
[[nodiscard, gnu::always_inline]] inline std::size_t count_below_avx2(const std::int64_t* from,
                                                                      std::int64_t k) noexcept {
  std::uint64_t twice = 0;  // NOLINT(misc-const-correctness): as before
  // Each integer that is below gives two bytes.
  __asm__ __volatile__(
      ESPALIER_SPREAD_AVX2                   //
      ESPALIER_BELOW_AVX2("first", "ymm1")   //
      ESPALIER_BELOW_AVX2("second", "ymm2")  //
      ESPALIER_BELOW_AVX2("third", "ymm3")   //
      ESPALIER_BELOW_AVX2("fourth", "ymm4")
      "vpackssdw %%ymm2, %%ymm1, %%ymm1\n\t"
      "vpackssdw %%ymm4, %%ymm3, %%ymm3\n\t"
      "vpacksswb %%ymm3, %%ymm1, %%ymm1\n\t"
      "vpmovmskb %%ymm1, %k[twice]\n\t"
      "popcntl %k[twice], %k[twice]"
      : [twice] "=&r"(twice)
      : [k] "x"(spread_avx2(k)), [first] "m"(at<32>(from)), [second] "m"(at<32>(from + 4)),
        [third] "m"(at<32>(from + 8)), [fourth] "m"(at<32>(from + 12))
      : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4");
  if constexpr (Ends) end_avx2();
  if constexpr (Scale % 2 == 0)
    return twice * (Scale / 2);
  else
    return twice / 2 * Scale;
}
[[nodiscard, gnu::always_inline]] inline unsigned equal_to_avx512(const std::uint64_t* from,
                                                                  std::uint64_t k) noexcept {
  std::uint32_t mask = 0;  // NOLINT(misc-const-correctness): as before
  // "memory": no later load before it, for the caller validates what it has found.
  __asm__ __volatile__(
      "vpbroadcastq %[k], %%zmm16\n\t"
      "vpcmpeqq %[all], %%zmm16, %%k1\n\t"
      "kmovw %%k1, %[mask]"
      : [mask] "=r"(mask)
      : [k] "r"(k), [all] "m"(at<64>(from))
      : "memory", ESPALIER_CLOBBERS_AVX512);
  return mask;
}
[[nodiscard, gnu::always_inline]] inline unsigned equal_to_avx2(const std::uint64_t* from,
                                                                std::uint64_t k) noexcept {
  std::uint32_t low_mask = 0;   // NOLINT(misc-const-correctness): as before
  std::uint32_t high_mask = 0;  // NOLINT(misc-const-correctness): as before
  __asm__ __volatile__(
      "vmovq %[k], %%xmm0\n\t"
      "vpbroadcastq %%xmm0, %%ymm0\n\t"
      "vpcmpeqq %[low], %%ymm0, %%ymm1\n\t"
      "vpcmpeqq %[high], %%ymm0, %%ymm0\n\t"
      "vmovmskpd %%ymm1, %[low_mask]\n\t"
      "vmovmskpd %%ymm0, %[high_mask]"
      : [low_mask] "=r"(low_mask), [high_mask] "=r"(high_mask)
      : [k] "r"(k), [low] "m"(at<32>(from)), [high] "m"(at<32>(from + 4))
      : "memory", "xmm0", "xmm1");
  end_avx2();
  return low_mask | high_mask << 4U;
}
[[nodiscard, gnu::always_inline]] inline unsigned equal_highest_avx512(const std::uint64_t* from,
                                                                       std::uint64_t tag) noexcept {
  std::uint32_t mask = 0;  // NOLINT(misc-const-correctness): as before
  __asm__ __volatile__(
      "vpbroadcastq %[tag], %%zmm16\n\t"
      "vpsrlq $48, %[all], %%zmm17\n\t"
      "vpcmpeqq %%zmm17, %%zmm16, %%k1\n\t"
      "kmovw %%k1, %[mask]"
      : [mask] "=r"(mask)
      : [tag] "r"(tag), [all] "m"(at<64>(from))
      : "memory", ESPALIER_CLOBBERS_AVX512);
  return mask;
}
[[nodiscard, gnu::always_inline]] inline unsigned equal_highest_avx2(const std::uint64_t* from,
                                                                     std::uint64_t tag) noexcept {
  std::uint32_t low_mask = 0;   // NOLINT(misc-const-correctness): as before
  std::uint32_t high_mask = 0;  // NOLINT(misc-const-correctness): as before
  __asm__ __volatile__(
      "vmovq %[tag], %%xmm0\n\t"
      "vmovdqa %[low], %%ymm1\n\t"
      "vmovdqa %[high], %%ymm2\n\t"
      "vpbroadcastq %%xmm0, %%ymm0\n\t"
      "vpsrlq $48, %%ymm1, %%ymm1\n\t"
      "vpsrlq $48, %%ymm2, %%ymm2\n\t"
      "vpcmpeqq %%ymm1, %%ymm0, %%ymm1\n\t"
      "vpcmpeqq %%ymm2, %%ymm0, %%ymm2\n\t"
      "vmovmskpd %%ymm1, %[low_mask]\n\t"
      "vmovmskpd %%ymm2, %[high_mask]"
      : [low_mask] "=r"(low_mask), [high_mask] "=r"(high_mask)
      : [tag] "r"(tag), [low] "m"(at<32>(from)), [high] "m"(at<32>(from + 4))
      : "memory", "xmm0", "xmm1", "xmm2");
  end_avx2();
  return low_mask | high_mask << 4U;
}
#undef ESPALIER_CLOBBERS_AVX512
#undef ESPALIER_SPREAD_AVX512
#undef ESPALIER_K_IN_AVX512
#undef ESPALIER_BELOW_AVX512
#undef ESPALIER_SPREAD_AVX2
#undef ESPALIER_BELOW_AVX2

template <std::size_t Scale, bool Ends>
[[nodiscard, gnu::always_inline]] inline std::size_t count_below(const std::int64_t* from, std::int64_t k,
                                                                 vector_width width) noexcept {
  return width == vector_width::avx512 ? count_below_avx512<Scale>(from, k)
                                       : count_below_avx2<Scale, Ends>(from, k);
}
[[nodiscard, gnu::always_inline]] inline unsigned equal_to(const std::uint64_t* from, std::uint64_t k,
                                                           vector_width width) noexcept {
  return width == vector_width::avx512 ? equal_to_avx512(from, k) : equal_to_avx2(from, k);
}
[[nodiscard, gnu::always_inline]] inline unsigned equal_highest(const std::uint64_t* from, std::uint64_t tag,
                                                                vector_width width) noexcept {
  return width == vector_width::avx512 ? equal_highest_avx512(from, tag) : equal_highest_avx2(from, tag);
}

#elif defined(__AARCH64EL__)

struct eight_integers {
  uint64x2_t first;
  uint64x2_t second;
  uint64x2_t third;
  uint64x2_t fourth;
};
/// Loads them. With `acquire` all later loads come after these.
template <bool acquire>
[[nodiscard, gnu::always_inline]] inline eight_integers load(const std::uint64_t* from) noexcept {
  uint64x2_t first;
  uint64x2_t second;
  uint64x2_t third;
  uint64x2_t fourth;
  __asm__ __volatile__(
      "ldp %q[first], %q[second], [%[from]]\n\t"
      "ldp %q[third], %q[fourth], [%[from], #32]"
      : [first] "=w"(first), [second] "=w"(second), [third] "=w"(third), [fourth] "=w"(fourth)
      : [from] "r"(from), "m"(at<64>(from)));
  if constexpr (acquire) __asm__ __volatile__("dmb ishld" : : : "memory");
  return {first, second, third, fourth};
}

/// The negative number of those that are below: a comparison sets all bits where it is true. The sums are pairwise, for the
/// compiler makes a chain of others.
[[nodiscard, gnu::always_inline]] inline uint64x2_t minus_below(const eight_integers& all,
                                                                int64x2_t k) noexcept {
  const auto is_below = [&](uint64x2_t some) { return vcgtq_s64(k, vreinterpretq_s64_u64(some)); };
  return vpaddq_u64(vpaddq_u64(is_below(all.first), is_below(all.second)),
                    vpaddq_u64(is_below(all.third), is_below(all.fourth)));
}
template <std::size_t Scale, bool>
[[nodiscard, gnu::always_inline]] inline std::size_t count_below(const std::int64_t* from, std::int64_t k,
                                                                 vector_width) noexcept {
  const int64x2_t key = vdupq_n_s64(k);
  const auto* const integers = reinterpret_cast<const std::uint64_t*>(from);
  const uint64x2_t low = minus_below(load<false>(integers), key);
  const uint64x2_t high = minus_below(load<false>(integers + 8), key);
  return (0 - vaddvq_u64(vpaddq_u64(low, high))) * Scale;
}

/// The low halves of the integers of two vectors.
[[nodiscard, gnu::always_inline]] inline uint32x4_t low_halves(uint64x2_t a, uint64x2_t b) noexcept {
  return vuzp1q_u32(vreinterpretq_u32_u64(a), vreinterpretq_u32_u64(b));
}
[[nodiscard, gnu::always_inline]] inline uint32x4_t high_halves(uint64x2_t a, uint64x2_t b) noexcept {
  return vuzp2q_u32(vreinterpretq_u32_u64(a), vreinterpretq_u32_u64(b));
}
[[nodiscard, gnu::always_inline]] inline uint16x8_t low_halves(uint32x4_t a, uint32x4_t b) noexcept {
  return vuzp1q_u16(vreinterpretq_u16_u32(a), vreinterpretq_u16_u32(b));
}
[[nodiscard, gnu::always_inline]] inline uint16x8_t high_halves(uint32x4_t a, uint32x4_t b) noexcept {
  return vuzp2q_u16(vreinterpretq_u16_u32(a), vreinterpretq_u16_u32(b));
}
/// Bit i for what is true at i.
[[nodiscard, gnu::always_inline]] inline unsigned bits_of(uint16x8_t is_true) noexcept {
  constexpr uint16x8_t bits{1U << 0U, 1U << 1U, 1U << 2U, 1U << 3U, 1U << 4U, 1U << 5U, 1U << 6U, 1U << 7U};
  return vaddvq_u16(vandq_u16(is_true, bits));
}
[[nodiscard, gnu::always_inline]] inline unsigned equal_to(const std::uint64_t* from, std::uint64_t k,
                                                           vector_width) noexcept {
  const uint64x2_t key = vdupq_n_u64(k);
  const eight_integers all = load<true>(from);
  return bits_of(low_halves(low_halves(vceqq_u64(all.first, key), vceqq_u64(all.second, key)),
                            low_halves(vceqq_u64(all.third, key), vceqq_u64(all.fourth, key))));
}
[[nodiscard, gnu::always_inline]] inline unsigned equal_highest(const std::uint64_t* from, std::uint64_t tag,
                                                                vector_width) noexcept {
  const eight_integers all = load<true>(from);
  const uint16x8_t highest =
      high_halves(high_halves(all.first, all.second), high_halves(all.third, all.fourth));
  return bits_of(vceqq_u16(highest, vdupq_n_u16(static_cast<std::uint16_t>(tag))));
}

#else

// Never called.
template <std::size_t Scale, bool>
[[nodiscard]] inline std::size_t count_below(const std::int64_t*, std::int64_t, vector_width) noexcept {
  return 0;
}
[[nodiscard]] inline unsigned equal_to(const std::uint64_t*, std::uint64_t, vector_width) noexcept {
  return 0;
}
[[nodiscard]] inline unsigned equal_highest(const std::uint64_t*, std::uint64_t, vector_width) noexcept {
  return 0;
}

#endif

}  // namespace vector_detail

/// Calls f with the width as a constant. For loops: which vectors to use is then not a question of each turn.
template <class F>
[[gnu::always_inline]] inline decltype(auto) with_constant(vector_width width, F&& f) {
#if defined(__x86_64__)
  if (width == vector_width::avx512) return f(std::integral_constant<vector_width, vector_width::avx512>());
  if (width == vector_width::avx2) return f(std::integral_constant<vector_width, vector_width::avx2>());
#elif defined(__AARCH64EL__)
  if (width == vector_width::neon) return f(std::integral_constant<vector_width, vector_width::neon>());
#endif
  return f(std::integral_constant<vector_width, vector_width::none>());
}

// `width` is one that vectors() may be, but not none.

/// How many of 16 integers are below `k`, times Scale. They have a sign: AVX2 has no other comparison. Ends is false where
/// another comparison follows at once.
template <std::size_t Scale = 1, bool Ends = true>
[[nodiscard, gnu::always_inline]] inline std::size_t count_below(const std::int64_t* from, std::int64_t k,
                                                                 vector_width width) noexcept {
  return vector_detail::count_below<Scale, Ends>(from, k, width);
}

/// Bit i tells whether the integer at i is `k`, of 8 integers.
[[nodiscard, gnu::always_inline]] inline unsigned equal_to(const std::uint64_t* from, std::uint64_t k,
                                                           vector_width width) noexcept {
  return vector_detail::equal_to(from, k, width);
}

/// Bit i tells whether the highest 16 bits of the integer at i are `tag`, of 8 integers.
[[nodiscard, gnu::always_inline]] inline unsigned equal_highest(const std::uint64_t* from, std::uint64_t tag,
                                                                vector_width width) noexcept {
  return vector_detail::equal_highest(from, tag, width);
}

}  // namespace observed or unobserved

/// Whether there is code for gather_pairs(), which needs AVX-512.
#if defined(__x86_64__)
inline constexpr bool gathers_pairs = true;
#else
inline constexpr bool gathers_pairs = false;
#endif

struct gathered_pairs {
  std::size_t count;
  std::uint64_t smallest;  ///< of the first integers; not used where there are none
  std::uint64_t largest;
};
/// Of pairs of integers in lines of four: those whose first integer is from `first` to `first + range`, but not the one in
/// `except` that belongs to the line. Stores the first integers, and the numbers of the pairs, in the order in which they lie.
/// Both arrays have room for eight more than there are pairs. The lines are aligned.
[[nodiscard]] gathered_pairs gather_pairs(const void* lines, std::span<const std::uint64_t> except,
                                          std::uint64_t first, std::uint64_t range, std::uint64_t* firsts,
                                          std::uint64_t* numbers) noexcept;

}  // namespace espalier::hw
