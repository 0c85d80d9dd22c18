#pragma once

// The sanitizers of this build, for tests that cannot run under them.

#if defined(__SANITIZE_ADDRESS__)
#define ESPALIER_TEST_ADDRESS_SANITIZER 1
#endif
#if defined(__SANITIZE_THREAD__)
#define ESPALIER_TEST_THREAD_SANITIZER 1
#endif
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ESPALIER_TEST_ADDRESS_SANITIZER 1
#endif
#if __has_feature(thread_sanitizer)
#define ESPALIER_TEST_THREAD_SANITIZER 1
#endif
#endif

namespace espalier::test {

#if defined(ESPALIER_TEST_ADDRESS_SANITIZER)
inline constexpr bool address_sanitizer = true;
#else
inline constexpr bool address_sanitizer = false;
#endif

#if defined(ESPALIER_TEST_THREAD_SANITIZER)
inline constexpr bool thread_sanitizer = true;
#else
inline constexpr bool thread_sanitizer = false;
#endif

}  // namespace espalier::test
