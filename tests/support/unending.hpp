#pragma once

namespace espalier::test {

/// Ends the process where a test has no end: with its name on stderr, and this exit code. The test may use
/// ESPALIER_TEST_SECONDS of processor time, by default 300, and four times as many of the clock. Each program of tests begins
/// it for each of its tests; long runs by ESPALIER_SOAK_OPERATIONS or ESPALIER_STRESS_SCALE have no limit.
void limit_test(const char* name);
void test_has_ended();

inline constexpr int unending_exit_code = 86;

}  // namespace espalier::test
