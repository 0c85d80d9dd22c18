#pragma once

#include "support/sanitizers.hpp"

namespace espalier::test {

/// A positive number from the environment; the fallback if the variable is absent or is not such a number.
[[nodiscard]] double environment_number(const char* variable, double fallback);

/// Such a build is several times slower than a plain one, with stack frames several times as large.
inline constexpr bool instrumented = address_sanitizer || thread_sanitizer;

}  // namespace espalier::test
