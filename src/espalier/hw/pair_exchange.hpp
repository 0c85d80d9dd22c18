#pragma once

// Two neighbouring words that are compared and stored in one step, or loaded.
//
// It is assembler: compilers call a library for it, which may take a lock.
//
// Of loads, x86 promises a step only where the processor has AVX (Intel, Software Developer's Manual, volume 3, "Guaranteed
// Atomic Operations"; AMD, Architecture Programmer's Manual, volume 2, "Access Atomicity").

#include <cstdint>

#include "espalier/hw/instrumentation.hpp"
#include "espalier/hw/vector_compare.hpp"

#if defined(ESPALIER_THREAD_SANITIZER)
// Of the sanitizer's library, as g++ declares it by itself.
__extension__ typedef unsigned __int128 espalier_pair_of_words;
extern "C" bool __tsan_atomic128_compare_exchange_strong(volatile void* at, void* expected,
                                                         espalier_pair_of_words desired, int success,
                                                         int failure);
extern "C" espalier_pair_of_words __tsan_atomic128_load(const volatile void* at, int order);
extern "C" void __tsan_release(void* address);
extern "C" void __tsan_acquire(void* address);
#endif

namespace espalier::hw {

/// Whether this processor exchanges pairs.
#if defined(__x86_64__)
inline constexpr bool exchanges_pairs = true;
#else
inline constexpr bool exchanges_pairs = false;
#endif

struct alignas(16) word_pair {
  std::uint64_t first;
  std::uint64_t second;
};

#if defined(ESPALIER_THREAD_SANITIZER)
inline namespace observed {
#else
inline namespace unobserved {
#endif

/// Stores `desired` if both words are as expected, and returns whether they were. Sequentially consistent. `at` is a
/// multiple of 16. Requires exchanges_pairs.
[[nodiscard, gnu::always_inline]] inline bool exchange_pair(
    [[maybe_unused]] void* at, [[maybe_unused]] const word_pair& expected,
    [[maybe_unused]] const word_pair& desired) noexcept {
#if defined(ESPALIER_THREAD_SANITIZER)
  using pair = espalier_pair_of_words;
  pair seen = pair{expected.second} << 64U | expected.first;
  // The sanitizer takes the exchange for one of the first word. Others load the second one.
  void* const second = static_cast<std::uint64_t*>(at) + 1;
  __tsan_release(second);
  const bool same = __tsan_atomic128_compare_exchange_strong(
      at, &seen, pair{desired.second} << 64U | desired.first, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  __tsan_acquire(second);
  return same;
#elif defined(__x86_64__)
  bool same = false;  // NOLINT(misc-const-correctness): the instruction writes it
  std::uint64_t low = expected.first;
  std::uint64_t high = expected.second;
  __asm__ __volatile__("lock cmpxchg16b %[pair]"
                       : "=@ccz"(same), [pair] "+m"(*static_cast<word_pair*>(at)), "+a"(low), "+d"(high)
                       : "b"(desired.first), "c"(desired.second)
                       : "memory");
  return same;
#else
  return false;
#endif
}

/// Whether load_pair() is one step on a processor with these vectors. Requires exchanges_pairs.
[[nodiscard, gnu::always_inline]] inline bool loads_pairs([[maybe_unused]] vector_width width) noexcept {
#if defined(ESPALIER_THREAD_SANITIZER)
  return true;
#else
  return width != vector_width::none;
#endif
}

/// Loads both words. Acquire. `at` is a multiple of 16. Requires that loads_pairs(vectors()).
[[nodiscard, gnu::always_inline]] inline word_pair load_pair([[maybe_unused]] const void* at) noexcept {
  word_pair seen{};
#if defined(ESPALIER_THREAD_SANITIZER)
  const espalier_pair_of_words both = __tsan_atomic128_load(at, __ATOMIC_ACQUIRE);
  seen = {static_cast<std::uint64_t>(both), static_cast<std::uint64_t>(both >> 64U)};
  __tsan_acquire(const_cast<std::uint64_t*>(static_cast<const std::uint64_t*>(at)) + 1);
#elif defined(__x86_64__)
  // "memory": no later load of the caller comes before it. Of this encoding no upper half of a register stays in use.
  __asm__ __volatile__(
      "vmovdqa %[pair], %%xmm0\n\t"
      "vmovq %%xmm0, %[first]\n\t"
      "vpextrq $1, %%xmm0, %[second]"
      : [first] "=r"(seen.first), [second] "=r"(seen.second)
      : [pair] "m"(*static_cast<const word_pair*>(at))
      : "memory", "xmm0");
#endif
  return seen;
}

}  // namespace observed or unobserved
}  // namespace espalier::hw
