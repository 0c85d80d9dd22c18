// Which blocks of a program are in its record, and behind which calls.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "espalier/inspect/snapshot_file.hpp"
#include "espalier/programs/call_sites.hpp"
#include "program_fixture.hpp"

namespace espalier::test {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

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
  EXPECT_EQ(got.of("give_back_by_resizing"), (b{0, 0}));
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
}

TEST_F(preload_blocks, has_blocks_that_hold_what_was_asked_for) {
  const recording got = recorded({program("every_function")}, 0);
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
  EXPECT_EQ(recorded({program("every_function")}, 0).fact("malloc of its own"), "");
}

TEST_F(preload_blocks, has_threads_that_give_back_each_others_blocks) {
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

}  // namespace
}  // namespace espalier::test
