// Whole programs on the index-aware malloc while the kernel refuses, or takes its time, on purpose.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
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

  /// The same output without any of it and under ours with each of these rules and variables.
  void expect_the_same(const std::vector<std::string>& command, const std::vector<std::string>& all_rules,
                       const std::vector<recorded_programs::variables>& all_variables = {{}}) const {
    const outcome plain = programs.run_plainly(command);
    ASSERT_EQ(plain.exit_status(), 0) << plain.output;
    for (const recorded_programs::variables& variables : all_variables) {
      for (const std::string& rules : all_rules) {
        const outcome ours = run(command, rules, variables);
        EXPECT_EQ(ours.exit_status(), 0) << rules << "\n" << ours.status << ours.output;
        EXPECT_EQ(ours.output, plain.output) << rules;
      }
    }
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
  EXPECT_THAT(ended.output,
              HasSubstr("espalier-kernel-faults: ESPALIER_KERNEL_FAULTS=mmap:fail=EWHAT@1: fail= "
                        "wants ENOMEM"));
}

TEST_F(preload_faults, leave_calloc_zeroed_memory) {
  expect_the_same({program("malloc_zeroed")}, {"", "madvise:fail=EINVAL@*"});
  expect_the_same({program("malloc_zeroed"), "locked"}, {""});
  const std::vector<recorded_programs::variables> soon{
      {{"ESPALIER_MALLOC_KEEP", "0"}, {"ESPALIER_MALLOC_DECAY", "0"}},
      {{"ESPALIER_MALLOC_KEEP", "0"}, {"ESPALIER_MALLOC_DECAY", "1"}}};
  expect_the_same({program("malloc_zeroed"), "idle"}, {""}, soon);
  expect_the_same({program("malloc_zeroed"), "idle", "locked"}, {""}, soon);
}

TEST_F(preload_faults, of_small_limits_leave_room_for_blocks) {
  for (const std::string what : {"locked", "addresses"}) {
    for (const std::string kibibytes : {"1024", "2048", "4096", "20000", "60000"}) {
      const std::vector<std::string> command{program("malloc_locked"), what, kibibytes};
      ASSERT_EQ(programs.run_plainly(command).output, "locked\n") << what << kibibytes;
      EXPECT_EQ(run(command, "").output, "locked\n") << what << kibibytes;
    }
  }
}

TEST_F(preload_faults, leave_locked_memory_locked) {
  expect_the_same({program("malloc_locked"), "kept"}, {""});
}

// The soak, while each call of a kind in turn is refused.

struct preload_refused_soak : preload_faults {
  /// As much as goes to the kernel.
  recorded_programs::variables settings{
      {"ESPALIER_MALLOC_KEEP", "0"}, {"ESPALIER_MALLOC_DECAY", "0"}, {"ESPALIER_KERNEL_FAULTS_COUNTS", "1"}};

  /// How many calls of the kind there were.
  std::uint64_t expect_sound(const std::string& kind, const std::string& rules) const {
    const outcome ended = run({program("malloc_soak"), "refused"}, rules, settings);
    EXPECT_EQ(ended.exit_status(), 0) << rules << "\n" << ended.status << ended.output;
    const std::size_t at = ended.output.find(" " + kind + "=");
    if (at == std::string::npos) {
      ADD_FAILURE() << ended.output;
      return 0;
    }
    return std::stoull(ended.output.substr(at + kind.size() + 2));
  }
};

constexpr std::pair<const char*, const char*> refusals[] = {
    {"mmap", "ENOMEM"}, {"munmap", "ENOMEM"}, {"mremap", "ENOMEM"}, {"madvise", "EINVAL"}};

TEST_F(preload_refused_soak, survives_each_kind_of_call) {
  for (const auto& [kind, error] : refusals) {
    const std::string rule = std::string(kind) + ":fail=" + error + "@";
    EXPECT_GT(expect_sound(kind, ""), 10U) << "there are calls of the kind";
    // mmap in rows is not refused without end: threads would find no memory to begin with.
    for (const char* const which : {"1", "3", "10"}) expect_sound(kind, rule + which);
    for (const char* const which : {"2", "5", "30"})
      if (at_length()) expect_sound(kind, rule + which);
    if (std::string(kind) != "mmap" && std::string(kind) != "munmap") expect_sound(kind, rule + "*");
  }
  expect_sound("madvise", "madvise:delay_us=50@*,munmap:delay_after_us=50@*,mremap:delay_after_us=200@*");
  expect_sound("mmap", "mmap:delay_after_us=100@*,munmap:delay_us=100@*,futex:delay_us=100@*");
}

/// By itself, at length.
TEST_F(preload_refused_soak, DISABLED_survives_every_single_call) {
  for (const auto& [kind, error] : refusals) {
    for (unsigned n = 1; n <= 500 && !HasFailure(); ++n) {
      if (expect_sound(kind, std::string(kind) + ":fail=" + error + "@" + std::to_string(n)) < n) break;
    }
  }
}

}  // namespace
}  // namespace espalier::test
