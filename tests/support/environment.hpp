#pragma once

#include "support/sanitizers.hpp"

namespace espalier::test {

/// A positive number from the environment; the fallback where the variable is absent or is none.
[[nodiscard]] double environment_number(const char* variable, double fallback);

/// Several times as slow as a plain build, with stack frames several times as large.
inline constexpr bool instrumented = address_sanitizer || thread_sanitizer;

}  // namespace espalier::test
