#pragma once

namespace espalier::test {

/// A positive number from the environment; the fallback where the variable is absent or is none.
[[nodiscard]] double environment_number(const char* variable, double fallback);

/// Built with AddressSanitizer or ThreadSanitizer: several times as slow, with stack frames several times as
/// large.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool instrumented = true;
#elif defined(__has_feature)
inline constexpr bool instrumented = __has_feature(thread_sanitizer) || __has_feature(address_sanitizer);
#else
inline constexpr bool instrumented = false;
#endif

}  // namespace espalier::test
