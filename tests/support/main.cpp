#include <gtest/gtest.h>

#include <cstdio>

#include "support/suite.hpp"

/// Read by ThreadSanitizer's runtime where it is linked. Its deadlock detection identifies a mutex only by its address.
/// Nodes with mutexes whose memory is reused at another place of a tree look to it as if locked in either order. The
/// stress suite's watchdog and the explored schedules detect real deadlocks.
extern "C" const char* __tsan_default_options();  // NOLINT(bugprone-reserved-identifier)
extern "C" const char* __tsan_default_options() { return "detect_deadlocks=0"; }  // NOLINT

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (!espalier::test::register_tests()) {
    std::fputs("no subject or no check was linked into this executable\n", stderr);
    return 2;
  }
  return RUN_ALL_TESTS();
}
