// The heap at its peak, of programs that free it before they end.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <string>
#include <vector>

#include "espalier/inspect/snapshot_file.hpp"
#include "recorded_program.hpp"

namespace espalier::test {
namespace {

using namespace ::testing;
using b = blocks_of_function;

struct preload_peaks : preload_program {
  /// Of "peaks HOW", with the end in "snapshot" and the peak in "snapshot.peak".
  recording peak_of(const std::string& how, recorded_programs::variables settings = {}) {
    settings.emplace_back("PEAK", "1");
    recorded({program("peaks"), how}, 6, settings);
    EXPECT_THAT(runs.files(), UnorderedElementsAre("snapshot", "snapshot.peak")) << how;
    recording got = runs.read("snapshot.peak");
    EXPECT_EQ(got.fact("taken at"), "peak") << how;
    EXPECT_EQ(got.fact("blocks left out"), "0") << how;
    return got;
  }

  static std::uint64_t bytes_of(const recording& got) {
    std::uint64_t sum = 0;
    for (const inspect::live_block& block : got.snapshot.blocks) sum += block.bytes;
    return sum;
  }
};

/// A snapshot is taken when a 64th of the heap is gone; what threads have not told yet comes to that.
void expect_nearly(const b& got, const b& whole, std::uint64_t beside = 0) {
  EXPECT_LE(got.bytes, whole.bytes);
  EXPECT_GE(got.bytes, whole.bytes - (whole.bytes + beside) / 50);
  EXPECT_EQ(got.bytes * whole.blocks, got.blocks * whole.bytes);
}

TEST_F(preload_peaks, have_the_blocks_that_are_freed_later) {
  const recording got = peak_of("one");
  expect_nearly(got.of("fill_low"), {8000, 320'000});
  const recording end = runs.read();
  EXPECT_EQ(end.of("fill_low"), (b{}));
  EXPECT_EQ(end.fact("taken at"), "return from main");
  const std::uint64_t highest = end.number("most bytes at once");
  EXPECT_GE(highest, 318'000U);
  EXPECT_LE(highest, 330'000U);
  EXPECT_GE(bytes_of(got), highest - highest / 50);
  EXPECT_EQ(end.number("allocations recorded"), got.number("allocations recorded"))
      << "no block came after it";
}

TEST_F(preload_peaks, of_few_blocks_have_each) { EXPECT_EQ(peak_of("few").of("fill_low"), (b{3, 120})); }

TEST_F(preload_peaks, are_the_highest_of_all) {
  const recording got = peak_of("three");
  expect_nearly(got.of("fill_high"), {9000, 504'000});
  EXPECT_EQ(got.of("fill_low"), (b{}));
}

TEST_F(preload_peaks, of_many_steps_are_near_the_highest) {
  // Not each can be afforded; the last one adds less than a quarter to one that was.
  const recording got = peak_of("stairs");
  EXPECT_GE(bytes_of(got), 20'000U * 56 * 3 / 4);
  EXPECT_GE(runs.read().number("most bytes at once"), 1'110'000U) << "of 1,120,000";
}

TEST_F(preload_peaks, have_the_block_whose_end_ends_them) {
  for (const std::string how : {"large", "large_before"}) {
    const std::uint64_t allocations = recorded({program("peaks"), how}, 6).number("allocations recorded");
    const recording got = peak_of(how);
    EXPECT_EQ(runs.read().number("allocations recorded"), allocations) << "each once";
    EXPECT_EQ(got.of("take_large"), (b{1, 50'000'000})) << how;
    EXPECT_EQ(got.of("fill_low"), (b{100, 4000}));
    EXPECT_EQ(got.of("fill_high").blocks, how == "large" ? 0U : 1000U);
  }
}

TEST_F(preload_peaks, are_not_where_a_block_moves) {
  EXPECT_EQ(peak_of("moved").of("grow"), (b{1, 1'000'000}));
}

TEST_F(preload_peaks, of_threads_have_the_blocks_of_each) {
  const recording got = peak_of("threads");
  expect_nearly(got.of("work"), {16'000, 768'000});
}

TEST_F(preload_peaks, end_where_another_thread_frees) {
  expect_nearly(peak_of("another").of("fill_low"), {8000, 320'000});
}

TEST_F(preload_peaks, are_no_place_for_a_thread_to_end) {
  expect_nearly(peak_of("cancelled").of("fill_low"), {8000, 320'000});
}

TEST_F(preload_peaks, may_come_at_the_end) {
  const recording got = peak_of("end");
  EXPECT_EQ(got.of("fill_high"), (b{})) << "which did not fall";
  EXPECT_EQ(runs.read().of("fill_high"), (b{9000, 504'000}));
  EXPECT_LE(bytes_of(got), bytes_of(runs.read()));
}

TEST_F(preload_peaks, of_children_are_their_own) {
  recorded({program("peaks"), "child"}, 6, {{"PEAK", "1"}, {"FOLLOW", "forks"}});
  const std::vector<std::string> files = runs.files();
  ASSERT_EQ(files.size(), 4U);
  for (const std::string& file : files) {
    if (file.find("snapshot.peak") != 0) continue;
    const recording got = runs.read(file);
    const bool child = file != "snapshot.peak";
    if (child) {
      expect_nearly(got.of("fill_high"), {5000, 280'000}, 120'000);
      EXPECT_EQ(got.of("fill_low"), (b{3000, 120'000}));
    } else {
      expect_nearly(got.of("fill_high"), {9000, 504'000});
      EXPECT_EQ(got.of("fill_low"), (b{}));
    }
  }
}

TEST_F(preload_peaks, are_told_apart_where_other_programs_are_followed) {
  EXPECT_EQ(runs.run({"/bin/sh", "-c", program("peaks") + " one; exit 3"}, {{"PEAK", "1"}, {"FOLLOW", "all"}})
                .exit_status(),
            3);
  int of_program = 0;
  for (const std::string& file : runs.files()) {
    if (file.find("snapshot.peak.") != 0) continue;
    const recording got = runs.read(file);
    of_program += got.of("fill_low").blocks > 7800 ? 1 : 0;
    EXPECT_THAT(got.snapshot.subject,
                HasSubstr("process " + file.substr(std::string("snapshot.peak.").size())));
  }
  EXPECT_EQ(of_program, 1);
}

TEST_F(preload_peaks, are_left_by_what_leaves_no_end) {
  for (const auto& [how, signal] : {std::pair{"killed", SIGKILL}, std::pair{"aborted", SIGABRT}}) {
    const outcome ended = runs.run({program("peaks"), how}, {{"PEAK", "1"}});
    ASSERT_TRUE(WIFSIGNALED(ended.status));
    EXPECT_EQ(WTERMSIG(ended.status), signal);
    EXPECT_THAT(runs.files(), ElementsAre("snapshot.peak")) << how;
    expect_nearly(runs.read("snapshot.peak").of("fill_low"), {8000, 320'000});
  }
}

TEST_F(preload_peaks, are_sampled_as_all_else) {
  const recording got = peak_of("one", {{"SAMPLE", "blocks:10"}});
  EXPECT_NEAR(static_cast<double>(got.of("fill_low").blocks), 800, 120);
}

TEST_F(preload_peaks, are_not_there_unless_asked_for) {
  for (const recorded_programs::variables& settings :
       {recorded_programs::variables{}, recorded_programs::variables{{"PEAK", "0"}}}) {
    recorded({program("peaks"), "three"}, 6, settings);
    EXPECT_THAT(runs.files(), ElementsAre("snapshot"));
    EXPECT_EQ(runs.read().fact("most bytes at once"), "");
  }
}

TEST_F(preload_peaks, that_cannot_be_written_harm_nothing) {
  const outcome ended =
      runs.run({program("peaks"), "three"}, {{"PEAK", "1"}, {"FILE", "no/such/folder/file"}});
  EXPECT_EQ(ended.exit_status(), 6);
  EXPECT_EQ(ended.output, "");
  EXPECT_THAT(runs.files(), IsEmpty());
}

TEST_F(preload_peaks, that_find_no_room_leave_the_one_before) {
  // Files of 64 KiB at most: the first peak fits, the second does not, nor does its signal end the program.
  const std::string limited = "ulimit -f 128; exec " + program("peaks") + " three";
  const std::string limited_more = "ulimit -f 1; exec " + program("peaks") + " three";
  for (const std::string& command : {limited, limited_more}) {
    const outcome ended = runs.run({"/bin/sh", "-c", command}, {{"PEAK", "1"}, {"FOLLOW", "all"}});
    EXPECT_EQ(ended.exit_status(), 6) << ended.status << ended.output;
    for (const std::string& file : runs.files()) {
      EXPECT_THAT(file, ::testing::Not(HasSubstr("part")));
      EXPECT_EQ(runs.read(file).of("fill_high").blocks, 0U);
    }
  }
}

TEST_F(preload_peaks, are_written_beside_those_that_are_asked_for) {
  const outcome ended = runs.run({program("exchange")}, {{"FILE", "%n"}, {"PEAK", "1"}});
  ASSERT_EQ(ended.exit_status(), 0) << ended.output;
  std::vector<std::string> files = runs.files();
  EXPECT_THAT(files, ::testing::Contains("peak"));
  std::erase(files, "peak");
  for (std::size_t i = 0; i < files.size(); ++i) {
    EXPECT_THAT(inspect::read_snapshot(runs.folder() / std::to_string(i)).facts,
                ::testing::Contains(inspect::fact{"snapshot", std::to_string(i)}));
  }
  const recording last = runs.read(std::to_string(files.size() - 1));
  EXPECT_EQ(last.of("keep"), (b{1000, 77'000}));
  EXPECT_EQ(last.fact("calls not seen"), "0");
}

}  // namespace
}  // namespace espalier::test
