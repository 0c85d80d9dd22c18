// Whole programs on the index-aware malloc while the kernel refuses, or takes its time, on purpose.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "recorded_program.hpp"

namespace espalier::test {
namespace {

using ::testing::HasSubstr;

struct preload_faults : ::testing::Test {
  /// A program under our malloc and these rules.
  outcome run(const std::vector<std::string>& command, const std::string& rules,
              recorded_programs::variables variables = {}) const {
    variables.emplace_back("LD_PRELOAD", MALLOC_LIBRARY ":" FAULTS_LIBRARY);
    variables.emplace_back("ESPALIER_KERNEL_FAULTS", rules);
    return programs.start(command, variables);
  }

  recorded_programs programs;
};

TEST_F(preload_faults, reach_the_mallocs_own_calls) {
  EXPECT_EQ(run({program("malloc_faults")}, "").output, "4\n");
  EXPECT_EQ(run({program("malloc_faults")}, "mmap:fail=ENOMEM@*").output, "0\n");
  EXPECT_EQ(run({program("malloc_faults")}, "munmap:delay_us=10@*,mmap:delay_after_us=10@1+").output, "4\n");
}

TEST_F(preload_faults, name_wrong_rules) {
  const outcome ended = run({program("malloc_faults")}, "mmap:fail=EWHAT@1");
  EXPECT_EQ(ended.exit_status(), 2);
  EXPECT_THAT(ended.output, HasSubstr("espalier-kernel-faults: ESPALIER_KERNEL_FAULTS=mmap:fail=EWHAT@1: fail= "
                                      "wants ENOMEM"));
}

}  // namespace
}  // namespace espalier::test
