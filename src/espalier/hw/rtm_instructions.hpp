#pragma once

// The instructions of Intel's restricted transactional memory, and whether they work on this processor. For hw/htm;
// all other code uses that. Header only, without the C++ library.
//
// It uses assembler, not the compiler's intrinsics: those need a target attribute and are then not inlined here. A
// call inside a transaction could be its first one through the dynamic linker, which aborts the transaction.
//
// Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter "Programming with Intel
// Transactional Synchronization Extensions".

#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

/// For tests: a preloaded library that executes the instructions in the processor's place defines it. No other code
/// does.
extern "C" [[gnu::weak, gnu::visibility("default")]] bool espalier_emulates_rtm() noexcept;

namespace espalier::hw {

enum class rtm_support : unsigned char {
  unknown,        ///< not tested yet
  commits,        ///< a trial transaction has committed
  not_announced,  ///< by CPUID
  always_aborts,  ///< announced, and the microcode says that it aborts all
  never_commits,  ///< announced, and no trial committed
  no_x86,
};

/// An interrupt or a first-touch fault may abort a few; hundreds of aborts in a row are conclusive.
inline constexpr unsigned rtm_trials = 256;

/// Only where look_for_rtm() found `commits`: elsewhere they are illegal instructions.
namespace rtm_instructions {

/// The result of begin() inside; no abort has this status.
inline constexpr std::uint32_t started = 0xffff'ffff;

#if defined(__x86_64__)

/// Returns `started`; at an abort it returns again, with registers and memory restored, the status word. To the
/// compiler it is a call that returns once, so nothing needs to be volatile: only EAX differs, and the fallback
/// address is the next instruction.
inline std::uint32_t begin() noexcept {
  std::uint32_t word = started;  // NOLINT(misc-const-correctness): the instruction writes it
  __asm__ __volatile__("xbegin 1f\n1:" : "+a"(word) : : "memory");
  return word;
}

inline void end() noexcept { __asm__ __volatile__("xend" : : : "memory"); }

inline bool inside() noexcept {
  bool result = false;  // NOLINT(misc-const-correctness): the instruction writes it
  __asm__ __volatile__("xtest" : "=@ccnz"(result));
  return result;
}

/// The instruction takes its code as a constant. The compiler writes one of eight bits with a sign, which the assembler of binutils 2.44
/// refuses.
template <std::uint8_t Code>
inline void abort() noexcept {
  __asm__ __volatile__("xabort %0" : : "i"(unsigned{Code}) : "memory");
}

#else

inline std::uint32_t begin() noexcept { return 0; }
inline void end() noexcept {}
inline bool inside() noexcept { return false; }
template <std::uint8_t Code>
inline void abort() noexcept {}

#endif

}  // namespace rtm_instructions

/// Whether a library for tests executes the transactions in software: their cost then means nothing.
[[nodiscard]] inline bool rtm_is_emulated() noexcept {
#if defined(__x86_64__)
  return &espalier_emulates_rtm != nullptr && espalier_emulates_rtm();
#else
  return false;
#endif
}

namespace rtm_detail {

/// `commits` if a trial transaction should commit.
[[nodiscard]] inline rtm_support as_announced() noexcept {
#if defined(__x86_64__)
  if (rtm_is_emulated()) return rtm_support::commits;
  unsigned eax{};
  unsigned ebx{};
  unsigned ecx{};
  unsigned edx{};
  constexpr unsigned announced = 1U << 11;     // leaf 7, EBX
  constexpr unsigned always_abort = 1U << 11;  // leaf 7, EDX
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0 || (ebx & announced) == 0)
    return rtm_support::not_announced;
  return (edx & always_abort) != 0 ? rtm_support::always_aborts : rtm_support::commits;
#else
  return rtm_support::no_x86;
#endif
}

}  // namespace rtm_detail

/// Never `unknown`. Takes microseconds; the caller stores the result.
[[nodiscard]] inline rtm_support look_for_rtm() noexcept {
  if (const rtm_support announced = rtm_detail::as_announced(); announced != rtm_support::commits)
    return announced;
  for (unsigned trial = 0; trial < rtm_trials; ++trial) {
    if (rtm_instructions::begin() == rtm_instructions::started) {
      rtm_instructions::end();
      return rtm_support::commits;
    }
  }
  return rtm_support::never_commits;
}

}  // namespace espalier::hw
