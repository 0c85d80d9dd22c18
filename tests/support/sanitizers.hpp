#pragma once

#include "espalier/hw/instrumentation.hpp"

// The sanitizers of this build, for tests that cannot run under them.

namespace espalier::test {

#if defined(ESPALIER_ADDRESS_SANITIZER)
inline constexpr bool address_sanitizer = true;
#else
inline constexpr bool address_sanitizer = false;
#endif

#if defined(ESPALIER_THREAD_SANITIZER)
inline constexpr bool thread_sanitizer = true;
#else
inline constexpr bool thread_sanitizer = false;
#endif

}  // namespace espalier::test
