// What becomes of a record when its program ends, copies itself or is sent signals.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "espalier/inspect/snapshot_file.hpp"
#include "program_fixture.hpp"

namespace espalier::test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

using preload_lifetime = preload_program;

TEST_F(preload_lifetime, leaves_its_children_alone_unless_told) {
  const recording got = recorded({program("forks")}, 4);
  EXPECT_EQ(got.of("in_both"), (blocks_of_function{2, 2000}));
  EXPECT_EQ(got.of("in_parent"), (blocks_of_function{1, 3000}));
  EXPECT_EQ(got.of("in_child"), (blocks_of_function{}));
  EXPECT_THAT(runs.files(), ElementsAre("snapshot"));
}

TEST_F(preload_lifetime, has_children_with_files_of_their_own) {
  recorded({program("forks")}, 4, {{"FOLLOW", "forks"}});
  std::vector<std::string> files = runs.files();
  ASSERT_THAT(files, SizeIs(9));
  for (const std::string& file : files) {
    const recording got = runs.read(file);
    const bool child = file != "snapshot";
    EXPECT_EQ(got.of("in_both").blocks, child ? 1U : 2U) << file;
    EXPECT_EQ(got.of("in_child").blocks, child ? 1U : 0U);
    EXPECT_EQ(got.of("in_parent").blocks, child ? 0U : 1U);
  }
}

TEST_F(preload_lifetime, is_recorded_however_it_ends) {
  const struct {
    const char* how;
    int status;
    const char* moment;
  } endings[] = {{"return", 11, "return from main"},
                 {"exit", 12, "exit"},
                 {"_exit", 13, "_exit"},
                 {"_Exit", 14, "_exit"},
                 {"quick_exit", 15, "quick_exit"},
                 {"thread", 17, "exit"}};
  for (const auto& ending : endings) {
    const recording got = recorded({program("endings"), ending.how}, ending.status);
    EXPECT_EQ(got.fact("taken at"), ending.moment);
    EXPECT_THAT(got.snapshot.subject, HasSubstr(program("endings"))) << ending.how;
    EXPECT_EQ(got.of("keep"), (blocks_of_function{1, 900})) << "before handlers gave it back: " << ending.how;
  }
}

TEST_F(preload_lifetime, is_recorded_where_the_c_library_ends_it) {
  const recording got = recorded({program("endings"), "error"}, 16);
  EXPECT_EQ(got.fact("taken at"), "end");
  EXPECT_EQ(got.of("keep").blocks, 0U) << "handlers have run by then";
}

TEST_F(preload_lifetime, waits_with_a_snapshot_on_an_alternate_stack) {
  const outcome ended = runs.run({program("signals"), "alternate"}, {{"FILE", "%n"}});
  EXPECT_EQ(ended.exit_status(), 0) << ended.output;
  EXPECT_THAT(runs.files(), SizeIs(2));
  EXPECT_EQ(runs.read("0").fact("taken at"), "signal");
  EXPECT_EQ(runs.read("0").of("allocate").blocks, 1U) << "taken with the block behind the signal";
}

TEST_F(preload_lifetime, keeps_the_signal_that_ends_it) {
  for (const auto& [how, signal] : {std::pair{"abort", SIGABRT}, std::pair{"terminated", SIGTERM}}) {
    const outcome ended = runs.run({program("endings"), how});
    ASSERT_TRUE(WIFSIGNALED(ended.status));
    EXPECT_EQ(WTERMSIG(ended.status), signal);
    EXPECT_THAT(runs.files(), IsEmpty()) << "as the manual says, there is no snapshot then";
  }
}

TEST_F(preload_lifetime, follows_into_other_programs_where_told) {
  EXPECT_EQ(runs.run({program("endings"), "exec"}).exit_status(), 12);
  EXPECT_THAT(runs.files(), IsEmpty());
  EXPECT_EQ(runs.run({program("endings"), "exec"}, {{"FOLLOW", "all"}}).exit_status(), 12);
  EXPECT_EQ(runs.read().of("keep").blocks, 1U);
}

TEST_F(preload_lifetime, sees_no_trace_of_the_recording_in_its_environment) {
  recorded({program("endings"), "environment"}, 0);
  EXPECT_THAT(runs.run({program("endings"), "environment"}).output, HasSubstr("PATH="));
  EXPECT_THAT(runs.run({program("endings"), "environment"}, {{"FOLLOW", "all"}}).output,
              AllOf(HasSubstr("LD_PRELOAD="), HasSubstr("ESPALIER_INSPECT_FOLLOW=all")));
}

TEST_F(preload_lifetime, writes_a_valid_snapshot_for_each_signal) {
  const outcome ended = runs.run({program("signals"), "40"}, {{"FILE", "%n"}});
  EXPECT_EQ(ended.exit_status(), 0) << ended.output;
  const std::vector<std::string> files = runs.files();
  // Signals that come while one is being handled are one.
  EXPECT_GT(files.size(), 5U);
  EXPECT_LE(files.size(), 41U);
  EXPECT_THAT(files, Each(Not(HasSubstr("part"))));
  for (std::size_t i = 0; i + 1 < files.size(); ++i) {
    const inspect::snapshot got = inspect::read_snapshot(runs.folder() / std::to_string(i));
    EXPECT_THAT(got.facts, Contains(inspect::fact{"taken at", "signal"}));
    EXPECT_THAT(got.facts, Contains(inspect::fact{"snapshot", std::to_string(i)}));
    // The last signal may find its thread in our code, which then gives its blocks back; the snapshot is taken with
    // the next block that anybody is given.
    if (i + 2 < files.size()) {
      EXPECT_GT(got.blocks.size(), 100U);
    }
  }
  const recording last = runs.read(std::to_string(files.size() - 1));
  EXPECT_EQ(last.fact("taken at"), "return from main");
  EXPECT_EQ(last.of("allocate"), (blocks_of_function{1, 123}));
}

TEST_F(preload_lifetime, loses_no_block_between_threads_and_snapshots) {
  EXPECT_EQ(runs.run_plainly({program("exchange")}).exit_status(), 0);
  std::uint64_t entered = 0;
  for (int round = 0; round < 2; ++round) {
    const outcome ended = runs.run({program("exchange")}, {{"FILE", "%n"}});
    ASSERT_EQ(ended.exit_status(), 0) << ended.output;
    const std::vector<std::string> files = runs.files();
    ASSERT_GT(files.size(), 5U);
    // Blocks that lie in each other would be left out: none was there twice, or no more.
    for (const std::string& file : files) {
      EXPECT_THAT(inspect::read_snapshot(runs.folder() / file).facts,
                  Contains(inspect::fact{"blocks left out", "0"}))
          << file;
    }
    const recording last = runs.read(std::to_string(files.size() - 1));
    EXPECT_EQ(last.of("keep"), (blocks_of_function{1000, 77'000}));
    EXPECT_EQ(last.of("work"), (blocks_of_function{0, 0}));
    EXPECT_EQ(last.fact("calls not seen"), "0");
    if (round != 0) {
      EXPECT_EQ(last.number("allocations recorded"), entered) << "the same each time";
    }
    entered = last.number("allocations recorded");
    for (const std::string& file : files) std::filesystem::remove(runs.folder() / file);
  }
  EXPECT_GT(entered, 4U * 3 * 40'000);
}

TEST_F(preload_lifetime, keeps_its_own_handler) {
  const outcome plain = runs.run_plainly({program("signals"), "own"});
  const outcome ended = runs.run({program("signals"), "own"});
  EXPECT_EQ(plain.exit_status(), 5);
  EXPECT_EQ(ended.exit_status(), 5) << ended.output;
  EXPECT_EQ(runs.read().fact("snapshot"), "0") << "the one at the end";
}

TEST_F(preload_lifetime, may_listen_to_another_signal_or_to_none) {
  EXPECT_TRUE(WIFSIGNALED(runs.run({program("signals"), "3"}, {{"SIGNAL", "none"}}).status));
  EXPECT_TRUE(WIFSIGNALED(runs.run({program("signals"), "3"}, {{"SIGNAL", "USR1"}}).status));
  EXPECT_EQ(runs.run({program("signals"), "3"}, {{"SIGNAL", std::to_string(SIGUSR2)}}).exit_status(), 0);
}

}  // namespace
}  // namespace espalier::test
