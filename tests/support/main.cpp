#include <gtest/gtest.h>

#include <cstdio>

#include "support/suite.hpp"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (!espalier::test::register_tests()) {
    std::fputs("no subject or no check was linked into this executable\n", stderr);
    return 2;
  }
  return RUN_ALL_TESTS();
}
