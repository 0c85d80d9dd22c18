#include "support/unending.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "support/sanitizers.hpp"

namespace espalier::test {
namespace {

// ThreadSanitizer delivers no signal to a loop.
TEST(unending, is_reported_by_name) {
  if (thread_sanitizer) GTEST_SKIP();
  EXPECT_EXIT(
      {
        setenv("ESPALIER_TEST_SECONDS", "0.02", 1);
        limit_test("some.test");
        for (std::atomic<bool> ends{false}; !ends.load();) {
        }
      },
      testing::ExitedWithCode(unending_exit_code), "some.test does not end");
}

TEST(unending, ends_a_test_that_sleeps) {
  EXPECT_EXIT(
      {
        setenv("ESPALIER_TEST_SECONDS", "0.01", 1);
        limit_test("some.test");
        for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
      },
      testing::ExitedWithCode(unending_exit_code), "some.test does not end");
}

}  // namespace
}  // namespace espalier::test
