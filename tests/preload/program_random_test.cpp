// Programs under libespalier-random.so: they notice nothing but that their blocks lie irregularly.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "recorded_program.hpp"

namespace espalier::test {
namespace {

using namespace ::testing;

struct told_block {
  std::uint64_t address;
  std::uint64_t usable;
  bool operator==(const told_block&) const = default;
};

struct preload_random : ::testing::Test {
  /// Under the library; variables are without ESPALIER_RANDOM_, and BEHIND is a library preloaded behind it.
  [[nodiscard]] outcome run(const std::vector<std::string>& command,
                            const recorded_programs::variables& settings = {}) const {
    recorded_programs::variables environment{{"LD_PRELOAD", RANDOM_LIBRARY}};
    for (const auto& [name, value] : settings) {
      if (name == "BEHIND")
        environment.front().second += ":" + value;
      else
        environment.emplace_back("ESPALIER_RANDOM_" + name, value);
    }
    return runs.start(command, environment);
  }

  void expect_unnoticed(const std::vector<std::string>& command, int status,
                        const recorded_programs::variables& settings = {}) const {
    const outcome plain = runs.run_plainly(command);
    EXPECT_EQ(plain.exit_status(), status) << plain.output;
    const outcome ended = run(command, settings);
    EXPECT_EQ(ended.exit_status(), status) << ended.output;
    EXPECT_EQ(ended.output, plain.output);
  }

  static std::vector<told_block> blocks_in(const outcome& of) {
    EXPECT_EQ(of.exit_status(), 0) << of.output;
    std::istringstream in(of.output);
    std::vector<told_block> all;
    for (told_block b{}; in >> b.address >> b.usable;) all.push_back(b);
    return all;
  }
  static std::vector<std::string> sizes(const std::string& function, std::size_t bytes, int count) {
    return {program("sizes"), function, std::to_string(bytes), std::to_string(count)};
  }
  [[nodiscard]] std::vector<told_block> blocks(const std::string& function, std::size_t bytes, int count,
                                               const recorded_programs::variables& settings = {}) const {
    return blocks_in(run(sizes(function, bytes, count), settings));
  }
  [[nodiscard]] std::vector<told_block> plain_blocks(const std::string& function, std::size_t bytes,
                                                     int count) const {
    return blocks_in(runs.run_plainly(sizes(function, bytes, count)));
  }

  static std::vector<std::uint64_t> usable_of(const std::vector<told_block>& all) {
    std::vector<std::uint64_t> usable;
    for (const told_block& b : all) usable.push_back(b.usable);
    return usable;
  }
  static std::set<std::uint64_t> kinds(const std::vector<std::uint64_t>& of) {
    return {of.begin(), of.end()};
  }

  static std::vector<std::uint64_t> strides_of(const std::vector<told_block>& all) {
    std::vector<std::uint64_t> strides;
    for (std::size_t i = 1; i < all.size(); ++i) strides.push_back(all[i].address - all[i - 1].address);
    return strides;
  }

  /// Of the sets of a 4 KiB cache page, how many first lines of blocks fall into the fullest.
  static int fullest_set(const std::vector<told_block>& all) {
    std::array<int, 64> load{};
    for (const told_block& b : all) ++load[(b.address >> 6U) & 63U];
    return *std::ranges::max_element(load);
  }

  recorded_programs runs;
};

TEST_F(preload_random, keeps_what_each_function_promises) {
  expect_unnoticed({program("every_function")}, 0);
  expect_unnoticed({program("every_new")}, 0);
  expect_unnoticed({program("every_function")}, 0, {{"BYTES", "65536"}});
  expect_unnoticed({program("every_function")}, 0, {{"BYTES", "0"}});
  expect_unnoticed({program("malloc_edges")}, 0);
  expect_unnoticed({program("own_malloc")}, 0);
  // Before main and behind it.
  expect_unnoticed({program("early")}, 0);
  expect_unnoticed({program("malloc_early")}, 0);
}

TEST_F(preload_random, keeps_threads_and_copies_of_processes) {
  expect_unnoticed({program("threads")}, 0);
  expect_unnoticed({program("forks")}, 4);
  expect_unnoticed({program("malloc_threads")}, 0);
  expect_unnoticed({program("malloc_forks")}, 0);
  expect_unnoticed({program("malloc_atfork")}, 0);
}

TEST_F(preload_random, makes_strides_irregular) {
  const std::vector<std::uint64_t> plain = strides_of(plain_blocks("malloc", 1008, 128));
  ASSERT_THAT(plain, Each(1024U)) << "this malloc does not lay such blocks end to end";
  const std::vector<std::uint64_t> strides = strides_of(blocks("malloc", 1008, 128, {{"BYTES", "64"}}));
  EXPECT_THAT(kinds(strides), ElementsAre(1024, 1040, 1056, 1072, 1088));
}

TEST_F(preload_random, adds_to_what_each_function_asks_for) {
  const std::set<std::uint64_t> padded{1000, 1016, 1032, 1048, 1064};
  for (const char* const function : {"malloc", "calloc", "realloc", "realloc_null", "reallocarray"}) {
    const auto usable = kinds(usable_of(blocks(function, 1000, 200, {{"BYTES", "64"}})));
    // glibc leaves a remainder that is too small for a block with the block before it.
    EXPECT_THAT(usable, AllOf(SizeIs(::testing::Ge(4U)), IsSubsetOf({1000, 1016, 1032, 1048, 1064, 1080})))
        << function;
    EXPECT_THAT(kinds(usable_of(plain_blocks(function, 1000, 200))), IsSubsetOf({1000, 1016})) << function;
  }
  for (const char* const function : {"posix_memalign", "aligned_alloc", "memalign"}) {
    const std::vector<told_block> all = blocks(function, 1024, 200, {{"BYTES", "192"}});
    std::set<std::uint64_t> steps;
    for (const told_block& b : all) {
      EXPECT_EQ(b.address % 64, 0U);
      steps.insert((b.usable - 1024) / 64);
    }
    EXPECT_THAT(steps, ElementsAre(0, 1, 2, 3)) << function;
  }
  for (const char* const function : {"memalign_page", "valloc", "pvalloc"}) {
    const std::vector<told_block> all = blocks(function, 100, 50);
    const std::vector<told_block> plain = plain_blocks(function, 100, 50);
    EXPECT_EQ(kinds(usable_of(all)), kinds(usable_of(plain))) << function;
    for (const told_block& b : all) EXPECT_EQ(b.address % 4096, 0U);
  }
}

TEST_F(preload_random, spreads_blocks_over_the_sets_of_a_cache) {
  for (const std::size_t bytes : {496U, 1008U, 2032U, 4080U}) {
    EXPECT_GE(fullest_set(plain_blocks("malloc", bytes, 128)), 13) << bytes;
    for (const char* const seed : {"0", "1", "2", "3"})
      EXPECT_LE(fullest_set(blocks("malloc", bytes, 128, {{"SEED", seed}})), 11) << bytes;
  }
}

TEST_F(preload_random, repeats_itself_for_one_seed_only) {
  const auto usable = [&](const char* seed) {
    return usable_of(blocks("malloc", 1008, 64, {{"SEED", seed}}));
  };
  EXPECT_EQ(usable("1"), usable("1"));
  EXPECT_NE(usable("1"), usable("2"));
  EXPECT_EQ(usable("0"), usable_of(blocks("malloc", 1008, 64)));
}

TEST_F(preload_random, gives_each_thread_numbers_of_its_own) {
  const std::vector<std::uint64_t> both = usable_of(blocks("threads", 1008, 64));
  ASSERT_EQ(both.size(), 128U);
  const auto half = both.begin() + 64;
  EXPECT_NE(std::vector(both.begin(), half), std::vector(half, both.end()));
  EXPECT_EQ(both, usable_of(blocks("threads", 1008, 64))) << "and the same in the next run";
}

/// Allocates and frees, and says nothing.
const std::vector<std::string> pairs{program("malloc_counts"), "same", "1000"};

TEST_F(preload_random, says_what_is_wrong_with_its_variables_and_goes_on) {
  const outcome ended = run(pairs, {{"BYTES", "lots"}});
  EXPECT_EQ(ended.exit_status(), 0);
  EXPECT_EQ(std::ranges::count(ended.output, '\n'), 1) << ended.output;
  EXPECT_THAT(ended.output,
              AllOf(HasSubstr("espalier: "), HasSubstr("ESPALIER_RANDOM_BYTES"), HasSubstr("65536")));
}

TEST_F(preload_random, tells_at_the_end_what_it_added_where_asked) {
  const auto line = MatchesRegex(
      "espalier: random, process [0-9]+: [1-9][0-9]* blocks, [1-9][0-9]* bytes asked for, [1-9][0-9]* added "
      "\\([0-9]+ %\\)\n");
  EXPECT_THAT(run(pairs, {{"STATS", "1"}}).output, line);
  EXPECT_THAT(run(pairs, {{"STATS", "1"}, {"BYTES", "0"}}).output, HasSubstr(" 0 added (0 %)"));
  EXPECT_EQ(run(pairs).output, "");
  // It closes standard error before it ends.
  EXPECT_THAT(run({"/bin/cat", "/dev/null"}, {{"STATS", "1"}}).output, line);
}

TEST_F(preload_random, frees_by_size_what_is_larger_than_the_program_knows) {
  const std::string behind = program("libbehind.so");
  EXPECT_EQ(run({program("sized_free")}, {{"BEHIND", behind}}).exit_status(), 6);
  EXPECT_EQ(runs.start({program("sized_free")}, {{"LD_PRELOAD", behind}}).exit_status(), 98)
      << "a test of the test";
}

TEST_F(preload_random, tells_it_once_however_the_program_ends) {
  for (const char* const how :
       {"return", "exit", "_exit", "_Exit", "quick_exit", "handler", "vfork", "idle_copy"}) {
    const std::string told = run({program("endings"), how}, {{"STATS", "1"}}).output;
    const std::size_t at = told.find("espalier: random, process");
    EXPECT_NE(at, std::string::npos) << how;
    EXPECT_EQ(told.find("espalier: random", at + 1), std::string::npos) << how;
  }
}

TEST_F(preload_random, tells_of_each_copy_what_it_did) {
  const outcome ended = run({program("forks")}, {{"STATS", "1"}});
  EXPECT_EQ(ended.exit_status(), 4);
  std::istringstream in(ended.output);
  int copies = 0;
  int all = 0;
  for (std::string line; std::getline(in, line); ++all)
    copies += line.find(": 1 blocks, 2000 bytes asked for, ") != std::string::npos;
  EXPECT_EQ(copies, 8) << ended.output;
  EXPECT_EQ(all, 9) << ended.output;
}

TEST_F(preload_random, stands_before_other_allocators) {
  for (const char* const library : {"libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libmimalloc.so.2.0"}) {
    const std::string path = std::string("/usr/lib/x86_64-linux-gnu/") + library;
    if (!std::filesystem::exists(path)) continue;
    expect_unnoticed({program("threads")}, 0, {{"BEHIND", path}});
    // Debian's mimalloc is built as C, and aborts where operator new is to throw.
    if (path.find("mimalloc") == std::string::npos)
      expect_unnoticed({program("every_new")}, 0, {{"BEHIND", path}});
    const auto usable = usable_of(blocks("malloc", 1024, 200, {{"BYTES", "1024"}, {"BEHIND", path}}));
    EXPECT_GE(kinds(usable).size(), 4U) << library;
  }
}

TEST_F(preload_random, stands_behind_the_recorder) {
  const outcome plain = runs.run({program("every_function")});
  ASSERT_EQ(plain.exit_status(), 0) << plain.output;
  const recording before = runs.read();
  const outcome both = runs.run({program("every_function")}, {{"BEHIND", RANDOM_LIBRARY}});
  ASSERT_EQ(both.exit_status(), 0) << both.output;
  EXPECT_EQ(runs.read().functions, before.functions) << "what was asked for, by whom";
}

TEST_F(preload_random, does_not_disturb_real_programs) {
  expect_unnoticed({"/bin/ls", "/"}, 0);
  expect_unnoticed({"/bin/sh", "-c", "echo one | cat; exit 3"}, 3);
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"/usr/bin/git", "--version"},
           {"/usr/bin/python3", "-c",
            "import json, threading\nprint(json.dumps({str(i): [i] * i for i in range(99)}))"},
           {"/usr/bin/perl", "-e", "print join(',', map { $_ x 3 } 1..999)"}}) {
    if (std::filesystem::exists(command.front())) expect_unnoticed(command, 0);
  }
}

TEST_F(preload_random, shows_nothing_but_the_functions_it_stands_for) {
  const outcome listed =
      runs.run_plainly({"nm", "-D", "--defined-only", "--format=just-symbols", RANDOM_LIBRARY});
  ASSERT_EQ(listed.exit_status(), 0) << listed.output;
  std::istringstream in(listed.output);
  std::set<std::string> names;
  for (std::string name; in >> name;) names.insert(name);
  EXPECT_EQ(names, (std::set<std::string>{"_Exit", "_exit", "aligned_alloc", "calloc", "free",
                                          "free_aligned_sized", "free_sized", "malloc", "malloc_usable_size",
                                          "memalign", "posix_memalign", "pvalloc", "quick_exit", "realloc",
                                          "reallocarray", "sdallocx", "valloc"}));
  const outcome needed = runs.run_plainly({"readelf", "-d", RANDOM_LIBRARY});
  EXPECT_THAT(needed.output, Not(HasSubstr("libstdc++")));
}

}  // namespace
}  // namespace espalier::test
