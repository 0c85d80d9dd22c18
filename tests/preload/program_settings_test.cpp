// Records of less than everything, and where something is wrong.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <map>
#include <string>
#include "program_fixture.hpp"

namespace espalier::test {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

using preload_settings = preload_program;

TEST_F(preload_settings, is_recorded_before_main) {
  const recording got = recorded({program("early")}, 0);
  EXPECT_EQ(got.of("before_main"), (blocks_of_function{1, 700}));
  EXPECT_EQ(got.of("in_library"), (blocks_of_function{1, 750}));
  EXPECT_EQ(got.of("allocate_many"), (blocks_of_function{100'000, 2'400'000}));
}

TEST_F(preload_settings, goes_on_where_the_record_has_no_memory) {
  for (const char* const mebibytes : {"1", "5", "8"}) {
    const recording got = recorded({program("early")}, 0, {{"MEMORY", mebibytes}});
    EXPECT_THAT(got.fact("recording stopped"), StartsWith("the memory for ")) << mebibytes;
    EXPECT_LT(got.of("allocate_many").blocks, 100'000U);
    EXPECT_LE(got.number("bytes of the recording"), std::stoull(mebibytes) << 20U);
  }
  // What was recorded before the shortage is true after it: every second of those blocks is gone.
  const recording got = recorded({program("early")}, 0, {{"MEMORY", "8"}});
  EXPECT_GT(got.of("allocate_many").blocks, 10'000U);
  std::uint64_t entered = got.number("allocations recorded");
  EXPECT_NEAR(static_cast<double>(got.of("allocate_many").blocks), static_cast<double>(entered) / 2, 2000);
}

TEST_F(preload_settings, can_be_sampled) {
  const recording blocks = recorded({program("early")}, 0, {{"SAMPLE", "blocks:20"}});
  EXPECT_EQ(blocks.fact("sampling"), "blocks:20");
  EXPECT_NEAR(static_cast<double>(blocks.of("allocate_many").blocks), 5000, 500);
  EXPECT_EQ(blocks.number("allocations recorded") + blocks.number("allocations passed over"),
            recorded({program("early")}, 0).number("allocations recorded"));
  const recording bytes = recorded({program("early")}, 0, {{"SAMPLE", "bytes:240"}});
  EXPECT_NEAR(static_cast<double>(bytes.of("allocate_many").blocks), 10'000, 700);
  // Chosen regions are whole: in one of 64 KiB every block of 32 bytes but for every second, given back.
  const recording regions = recorded({program("early")}, 0, {{"SAMPLE", "regions:4"}});
  std::map<std::uint64_t, std::uint64_t> in_region;
  for (const inspect::live_block& block : regions.snapshot.blocks) ++in_region[block.address >> 16U];
  EXPECT_GT(in_region.size(), 5U);
  EXPECT_LT(in_region.size(), 60U);
  EXPECT_GT(std::ranges::count_if(in_region, [](const auto& of) { return of.second == 1024; }),
            static_cast<std::ptrdiff_t>(in_region.size()) - 4);
}

TEST_F(preload_settings, is_told_of_settings_that_are_wrong) {
  const outcome ended = runs.run({program("endings"), "exit"}, {{"SAMPLE", "some"}});
  EXPECT_EQ(ended.exit_status(), 12);
  EXPECT_THAT(ended.output, AllOf(StartsWith("espalier: the program is not recorded: "), HasSubstr("SAMPLE"),
                                  EndsWith("exit\n")));
  EXPECT_EQ(std::ranges::count(ended.output, '\n'), 2);
  EXPECT_THAT(runs.files(), IsEmpty());
}

TEST_F(preload_settings, goes_on_where_no_file_can_be_written) {
  const outcome ended = runs.run({program("endings"), "exit"}, {{"FILE", "no/such/folder/file"}});
  EXPECT_EQ(ended.exit_status(), 12);
  EXPECT_EQ(ended.output, "exit\n");
}

TEST_F(preload_settings, puts_no_file_in_the_place_of_a_pipe) {
  const std::string name = "/tmp/espalier-pipe." + std::to_string(getpid());
  ASSERT_EQ(mkfifo(name.c_str(), 0600), 0);
  const outcome ended = runs.run({program("endings"), "exit"}, {{"FILE", name}});
  EXPECT_EQ(ended.exit_status(), 12);
  struct stat found{};
  EXPECT_EQ(stat(name.c_str(), &found), 0);
  EXPECT_TRUE(S_ISFIFO(found.st_mode));
  unlink(name.c_str());
}

TEST_F(preload_settings, may_be_one_of_the_system) {
  const recording got = recorded({"/bin/sh", "-c", "x=$(echo text); echo $x; exit 9"}, 9);
  EXPECT_GT(got.snapshot.blocks.size(), 0U);
  EXPECT_EQ(runs.run({"/bin/sh", "-c", "kill -KILL $$"}).status, SIGKILL);
}

}  // namespace
}  // namespace espalier::test
