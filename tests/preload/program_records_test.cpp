// Records of whole programs: which blocks are in them, behind which calls, and what becomes of them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "espalier/inspect/snapshot_file.hpp"
#include "espalier/programs/site_names.hpp"
#include "recorded_program.hpp"

namespace espalier::test {
namespace {

using namespace ::testing;

using preload_blocks = preload_program;

TEST_F(preload_blocks, has_a_block_for_each_that_it_keeps) {
  const recording got = recorded({program("every_function")}, 0);
  using b = blocks_of_function;
  EXPECT_EQ(got.of("keep_plain"), (b{3, 100}));
  EXPECT_EQ(got.of("keep_zeroed"), (b{2, 210}));
  EXPECT_EQ(got.of("keep_resized_null"), (b{1, 300}));
  EXPECT_EQ(got.of("keep_grown"), (b{1, 100000}));
  EXPECT_EQ(got.of("keep_shrunk"), (b{1, 40}));
  EXPECT_EQ(got.of("keep_what_cannot_grow"), (b{1, 77}));
  EXPECT_EQ(got.of("free_by_resizing"), (b{0, 0}));
  EXPECT_EQ(got.of("keep_array"), (b{1, 341}));
  EXPECT_EQ(got.of("keep_posix"), (b{1, 400}));
  EXPECT_EQ(got.of("keep_aligned"), (b{1, 128}));
  EXPECT_EQ(got.of("keep_old_aligned"), (b{1, 500}));
  EXPECT_EQ(got.of("keep_page"), (b{1, 600}));
  EXPECT_EQ(got.of("keep_whole_pages"), (b{1, 700}));
  EXPECT_EQ(got.of("keep_text"), (b{1, 12}));
  EXPECT_EQ(got.of("fail"), (b{0, 0}));
  EXPECT_EQ(got.of("keep_nothing"), (b{0, 0}));
  EXPECT_EQ(got.of("main"), (b{0, 0}));
  ASSERT_GE(got.snapshot.blocks.size(), 16U);
  for (const inspect::live_block& block : got.snapshot.blocks) {
    EXPECT_GE(block.held(), block.bytes);
    EXPECT_EQ(block.address % 16, 0U);
  }
  EXPECT_EQ(got.fact("taken at"), "return from main");
  EXPECT_EQ(got.fact("sampling"), "all");
  EXPECT_EQ(got.fact("blocks left out"), "0");
  EXPECT_EQ(got.fact("allocations passed over"), "0");
  EXPECT_GT(got.number("allocations recorded"), 1000U);
  EXPECT_GT(got.number("bytes of the recording"), 0U);
  EXPECT_EQ(got.fact("recording stopped"), "");
  EXPECT_EQ(got.fact("malloc of its own"), "");
  EXPECT_THAT(got.snapshot.subject, EndsWith(program("every_function")));
  EXPECT_THAT(got.snapshot.links_unknown, Not(IsEmpty()));
  EXPECT_THAT(runs.files(), ElementsAre("snapshot")) << "nothing half-written is left";
}

void expect_operators(const recording& got) {
  using b = blocks_of_function;
  EXPECT_EQ(got.of("keep_new"), (b{1, 100}));
  EXPECT_EQ(got.of("keep_new_array"), (b{1, 200}));
  EXPECT_EQ(got.of("keep_new_nothrow"), (b{1, 300}));
  EXPECT_EQ(got.of("keep_array_nothrow"), (b{1, 350}));
  EXPECT_EQ(got.of("keep_array_aligned"), (b{1, 640}));
  EXPECT_EQ(got.of("keep_aligned_nothrow"), (b{1, 768}));
  EXPECT_EQ(got.of("keep_array_aligned_nothrow"), (b{1, 832}));
  EXPECT_EQ(got.of("keep_own"), (b{1, 52})) << "an operator new of a class's own hands on as any other";
  EXPECT_EQ(got.of("keep_vector"), (b{2, 24 + 8 * 1024}));
  EXPECT_EQ(got.of("keep_map").blocks, 1U + 100 + 100) << "the map, its nodes and their texts";
  EXPECT_EQ(got.of("keep_nothing"), (b{0, 0}));
  EXPECT_EQ(got.of("keep_nothing_without_memory"), (b{0, 0}));
  EXPECT_EQ(got.of("make_room"), (b{3, 183}));
  // g++ tells of a function without linkage by its last name alone.
  const b last = got.of("at_the_end").blocks != 0 ? got.of("at_the_end") : got.of("at_the_end::at_the_end");
  EXPECT_EQ(last, (b{1, 2000})) << "destroyed behind the snapshot";
}

TEST_F(preload_blocks, in_cpp_has_its_operators_and_containers) {
  const recording got = recorded({program("every_new")}, 0);
  expect_operators(got);
  using b = blocks_of_function;
  EXPECT_EQ(got.of("keep_new_aligned"), (b{1, 512})) << "libstdc++ asks for a multiple of the alignment";
  EXPECT_EQ(got.of("keep_new_of_nothing"), (b{1, 1})) << "and never for nothing";
}

void expect_operators_behind(preload_program& of, const std::string& library) {
  const std::string path = "/usr/lib/x86_64-linux-gnu/" + library;
  if (!std::filesystem::exists(path)) GTEST_SKIP() << library << " is not installed";
  const recording got = of.recorded({program("every_new")}, 0, {{"BEHIND", path}});
  expect_operators(got);
  EXPECT_EQ(got.of("keep_new_aligned"), (blocks_of_function{1, 400}))
      << "its operators are asked, not malloc";
  EXPECT_EQ(got.of("keep_new_of_nothing"), (blocks_of_function{1, 0}));
}

TEST_F(preload_blocks, has_the_operators_of_jemalloc) { expect_operators_behind(*this, "libjemalloc.so.2"); }

TEST_F(preload_blocks, has_the_operators_of_tcmalloc) {
  expect_operators_behind(*this, "libtcmalloc_minimal.so.4");
}

TEST_F(preload_blocks, of_a_c_program_has_those_of_a_cpp_plugin) {
  const recording got =
      recorded({program("modules"), program("libplugin_cpp.so"), program("libplugin_cpp.so")}, 0);
  EXPECT_EQ(got.of("kept"), (blocks_of_function{6, 999}));
}

TEST_F(preload_blocks, has_nothing_where_the_program_has_a_malloc_of_its_own) {
  const recording got = recorded({program("own_malloc")}, 0);
  EXPECT_EQ(got.snapshot.blocks.size(), 0U);
  EXPECT_EQ(got.fact("malloc of its own"), "own_malloc");
}

TEST_F(preload_blocks, has_threads_that_free_each_others_blocks) {
  const recording got = recorded({program("threads")}, 0);
  EXPECT_EQ(got.of("allocate"), (blocks_of_function{400, 400 * 48}));
  EXPECT_GE(got.number("allocations recorded"), 80400U);
}

TEST_F(preload_blocks, is_not_led_astray_by_frames) {
  static_cast<void>(recorded({program("frames")}, 0));
  // Who called the leaf that allocates: its sizes tell, and so must the second frames.
  const inspect::snapshot s = inspect::read_snapshot(runs.folder() / "snapshot");
  const programs::call_sites sites = programs::read_call_sites(runs.folder() / "snapshot");
  programs::code_names names(sites.modules);
  std::map<std::uint64_t, std::map<std::string, int>> callers;
  for (const inspect::live_block& block : s.blocks)
    ++callers[block.bytes][names.places_of(sites.sites[block.type].at(1)).front().function];
  const auto called_by = [](const char* function, int times) {
    return std::map<std::string, int>{{function, times}};
  };
  EXPECT_EQ(callers[64], called_by("first_caller", 100));
  EXPECT_EQ(callers[72], called_by("first_caller", 100));
  EXPECT_EQ(callers[80], called_by("second_caller", 100));
  EXPECT_EQ(callers[88], called_by("second_caller", 100));
  EXPECT_EQ(callers[96], called_by("realigning_caller", 1));
  EXPECT_EQ(callers[24].size(), 1U) << "the C library's qsort";
}

TEST_F(preload_blocks, has_names_from_symbols_and_from_unwinding_tables) {
  const auto stripped = [&](const char* how) {
    const std::string copy = (runs.folder() / "stripped").string();
    EXPECT_EQ(runs.run_plainly({"strip", how, "-o", copy, program("every_function")}).exit_status(), 0);
    EXPECT_EQ(runs.run({copy}).exit_status(), 0);
    return runs.read();
  };
  const recording full = recorded({program("every_function")}, 0);
  const recording by_symbol = stripped("--strip-debug");
  EXPECT_EQ(by_symbol.named.by_debug_info, 0U);
  EXPECT_EQ(by_symbol.named.by_symbol_table, full.named.by_debug_info);
  EXPECT_EQ(by_symbol.functions, full.functions) << "the same functions, without lines";

  const recording by_table = stripped("--strip-all");
  EXPECT_EQ(by_table.named.by_unwind_table, full.named.by_debug_info);
  EXPECT_EQ(by_table.functions.size(), full.functions.size())
      << "functions are told apart by their beginnings";
  for (const auto& [name, of] : by_table.functions) EXPECT_THAT(name, StartsWith("stripped+0x"));
}

TEST_F(preload_blocks, has_the_names_of_callers_where_functions_have_none) {
  const std::string copy = (runs.folder() / "stripped").string();
  ASSERT_EQ(runs.run_plainly({"strip", "--strip-all", "-o", copy, program("exports")}).exit_status(), 0);
  ASSERT_EQ(runs.run({copy}).exit_status(), 0);
  const recording got = runs.read();
  std::map<std::uint64_t, std::string> names;
  for (const inspect::live_block& block : got.snapshot.blocks)
    names[block.bytes] = got.snapshot.types[block.type].name;
  EXPECT_THAT(names[111], StartsWith("exported_one (stripped) > stripped+0x"));
  EXPECT_THAT(names[222], StartsWith("exported_two (stripped) > stripped+0x"));
  EXPECT_EQ(names[333], "exported_two (stripped)");
  EXPECT_THAT(names[444], StartsWith("stripped+0x")) << "main is a caller of everything";
  EXPECT_EQ(got.named.by_caller, 111U + 222U);
  EXPECT_EQ(got.named.by_symbol_table, 333U);
  EXPECT_EQ(got.named.by_unwind_table, 444U);
}

TEST_F(preload_blocks, has_modules_that_come_and_go) {
  const recording got =
      recorded({program("modules"), program("libplugin_one.so"), program("libplugin_two.so")}, 0);
  EXPECT_EQ(got.of("keep_one"), (blocks_of_function{3, 3 * 111}));
  EXPECT_EQ(got.of("keep_two"), (blocks_of_function{3, 3 * 222}));
}

TEST_F(preload_blocks, has_the_pointers_between_its_blocks_where_asked) {
  const recording got = recorded({program("every_new")}, 0, {{"POINTERS", "1"}});
  EXPECT_EQ(got.snapshot.links_unknown, "");
  const auto type_of = [&](std::uint32_t block) {
    return got.snapshot.types[got.snapshot.blocks[block].type].name;
  };
  std::uint64_t within_map = 0;
  for (const inspect::link& link : got.snapshot.links) {
    const bool from = type_of(link.from).find("keep_map") != std::string::npos;
    const bool to = type_of(link.to).find("keep_map") != std::string::npos;
    EXPECT_EQ(from, to);
    within_map += from && to ? 1 : 0;
  }
  // The map knows its root, first and last node; nodes know parent, children and text.
  EXPECT_EQ(within_map, 3U + 100 + 100 + 99);
}

TEST_F(preload_blocks, has_as_many_frames_as_asked_for) {
  const auto frames = [&](const char* wanted) {
    const recording got = recorded({program("frames")}, 0, {{"FRAMES", wanted}});
    return got.functions;
  };
  const auto one = frames("1");
  EXPECT_EQ(one.at("shared_leaf").blocks, 401U) << "nothing is known of its callers";
  EXPECT_FALSE(one.contains("first_caller"));
}

// What becomes of a record when its program ends, copies itself or is sent signals.

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

TEST_F(preload_lifetime, is_that_of_the_program_which_it_becomes) {
  for (const char* const follow : {"none", "forks", "all"})
    EXPECT_EQ(recorded({program("endings"), "exec"}, 12, {{"FOLLOW", follow}}).of("keep").blocks, 1U);
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

// Records of less than everything, and where something is wrong.

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

/// valgrind counts the same instructions each time.
TEST_F(preload_settings, costs_a_bounded_number_of_instructions) {
#ifdef __clang__
  GTEST_SKIP() << "valgrind 3.19 gives up on clang's debug information";
#endif
  const std::vector<std::string> command{"valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null",
                                         program("malloc_counts"), "same"};
  const auto counted = [&](const char* pairs, bool by_us, const char* peak = "0") {
    std::vector<std::string> with_pairs = command;
    with_pairs.emplace_back(pairs);
    const outcome ended =
        by_us ? runs.run(with_pairs, {{"FOLLOW", "all"}, {"PEAK", peak}}) : runs.run_plainly(with_pairs);
    return instructions(ended.output);
  };
  const recording recorded_plainly = recorded({program("malloc_counts"), "same", "20000"}, 0);
  // The difference of two runs has neither the program's beginning nor its end in it.
  const auto of_pairs = [&](bool by_us, const char* peak = "0") {
    return static_cast<double>(counted("20000", by_us, peak)) -
           static_cast<double>(counted("10000", by_us, peak));
  };
  const double plain = of_pairs(false);
  if (plain == 0) GTEST_SKIP() << "valgrind is not installed";
  const double with_record = of_pairs(true);
  ASSERT_GT(plain, 10'000 * 20.0);
  EXPECT_GT(with_record, plain * 1.2) << "is it recorded at all?";
#ifdef __OPTIMIZE__
  EXPECT_LT(with_record, plain * 4) << "3 in a release";
#endif
  EXPECT_LT(of_pairs(true, "1"), with_record * 1.01)
      << "a heap that comes and goes by one block has its peak";
  const std::uint64_t entered = recorded_plainly.number("allocations recorded");
  EXPECT_GE(entered, 20'000U) << "each one";
  EXPECT_LT(entered, 20'100U);
}

TEST_F(preload_settings, may_be_one_of_the_system) {
  const recording got = recorded({"/bin/sh", "-c", "x=$(echo text); echo $x; exit 9"}, 9);
  EXPECT_GT(got.snapshot.blocks.size(), 0U);
  EXPECT_EQ(runs.run({"/bin/sh", "-c", "kill -KILL $$"}).status, SIGKILL);
}

}  // namespace
}  // namespace espalier::test
