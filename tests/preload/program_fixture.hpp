#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "espalier/programs/code_names.hpp"
#include "recorded_program.hpp"

namespace espalier::test {

struct preload_program : ::testing::Test {
  void SetUp() override {
    if (!programs::code_names::available()) GTEST_SKIP() << "functions have no names without libdw";
  }

  /// Runs a program under the preload and by itself, and demands the same of both.
  recording recorded(const std::vector<std::string>& command, int status,
                     const recorded_programs::variables& settings = {}) {
    const outcome plain = runs.run_plainly(command);
    EXPECT_EQ(plain.exit_status(), status) << plain.output;
    const outcome ended = runs.run(command, settings);
    EXPECT_EQ(ended.exit_status(), status) << ended.output;
    EXPECT_EQ(ended.output, plain.output);
    return runs.read();
  }

  recorded_programs runs;
};

}  // namespace espalier::test
