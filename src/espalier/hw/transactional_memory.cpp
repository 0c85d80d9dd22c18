#include "espalier/hw/transactional_memory.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace espalier::hw {

#if defined(__x86_64__)
namespace {

/// The target attribute keeps the instructions in this one function, so that no build needs -mrtm.
__attribute__((target("rtm"), noinline)) bool transaction_commits() noexcept {
  if (_xbegin() != _XBEGIN_STARTED) return false;
  _xend();
  return true;
}

}  // namespace

rtm_status rtm_probe() {
  unsigned eax{};
  unsigned ebx{};
  unsigned ecx{};
  unsigned edx{};
  constexpr unsigned rtm = 1U << 11;           // leaf 7, EBX
  constexpr unsigned always_abort = 1U << 11;  // leaf 7, EDX
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0 || (ebx & rtm) == 0) {
    return {false, "the processor does not announce RTM (CPUID leaf 7)"};
  }
  if ((edx & always_abort) != 0) return {false, "the microcode aborts every transaction (RTM_ALWAYS_ABORT)"};
  // An interrupt or a first-touch fault may abort a few; hundreds in a row are a verdict.
  constexpr unsigned attempts = 256;
  for (unsigned attempt = 1; attempt <= attempts; ++attempt) {
    if (transaction_commits()) {
      return {true, "a trial transaction committed at attempt " + std::to_string(attempt)};
    }
  }
  return {false, "announced, but none of " + std::to_string(attempts) + " trial transactions committed"};
}

#else

rtm_status rtm_probe() { return {false, "RTM is an x86-64 feature and this processor is of another kind"}; }

#endif

}  // namespace espalier::hw
