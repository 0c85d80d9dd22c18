// The soak under the preloaded mallocs, and on the C library's, which it must pass as well.

#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "recorded_program.hpp"

namespace espalier::test {
namespace {

struct preload_soak : ::testing::Test {
  /// Through its whole length, as the environment says, or a short form of it.
  void expect_sound(const recorded_programs::variables& environment, const std::string& how = "") const {
    std::vector<std::string> command{program("malloc_soak")};
    if (!how.empty()) command.push_back(how);
    const outcome ended = programs.start(command, environment);
    EXPECT_EQ(ended.exit_status(), 0) << ended.output;
    std::fputs(ended.output.c_str(), stdout);
  }

  recorded_programs programs;
};

TEST_F(preload_soak, index_aware_malloc_loses_nothing_and_stays_within_bounds) {
  expect_sound({{"LD_PRELOAD", MALLOC_LIBRARY}}, "bounded");
}

const std::string few = "1000000";

TEST_F(preload_soak, whatever_its_settings) {
  for (const char* const knob : {"PREFAULT", "HUGE"})
    expect_sound({{"LD_PRELOAD", MALLOC_LIBRARY},
                  {std::string("ESPALIER_MALLOC_") + knob, "1"},
                  {"ESPALIER_SOAK_OPERATIONS", few}});
  expect_sound(
      {{"LD_PRELOAD", MALLOC_LIBRARY}, {"ESPALIER_MALLOC_KEEP", "0"}, {"ESPALIER_SOAK_OPERATIONS", few}});
}

TEST_F(preload_soak, the_c_librarys_malloc_passes_too) { expect_sound({{"ESPALIER_SOAK_OPERATIONS", few}}); }

TEST_F(preload_soak, what_is_padded_or_recorded_stays_whole) {
  expect_sound({{"LD_PRELOAD", RANDOM_LIBRARY}, {"ESPALIER_SOAK_OPERATIONS", few}});
  expect_sound({{"LD_PRELOAD", RANDOM_LIBRARY ":" MALLOC_LIBRARY}, {"ESPALIER_SOAK_OPERATIONS", few}});
  expect_sound({{"LD_PRELOAD", INSPECT_LIBRARY}, {"ESPALIER_SOAK_OPERATIONS", "300000"}});
}

TEST_F(preload_soak, mutexes_and_malloc_may_both_be_ours) {
  expect_sound({{"LD_PRELOAD", ELIDE_LIBRARY ":" MALLOC_LIBRARY}, {"ESPALIER_SOAK_OPERATIONS", few}});
}

}  // namespace
}  // namespace espalier::test
