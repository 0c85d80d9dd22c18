// Whole programs on the index-aware malloc.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>
#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "recorded_program.hpp"

namespace espalier::test {
namespace {

using namespace ::testing;

struct preload_malloc : ::testing::Test {
  outcome run(std::vector<std::string> command, const std::vector<std::string>& variables = {},
              const std::string& behind = "") const {
    std::vector<std::string> whole{"env", "LD_PRELOAD=" MALLOC_LIBRARY + behind};
    whole.insert(whole.end(), variables.begin(), variables.end());
    whole.insert(whole.end(), command.begin(), command.end());
    return programs.run_plainly(whole);
  }
  /// The same status and output with our malloc and without.
  void expect_the_same(const std::vector<std::string>& command, int status,
                       const std::vector<std::string>& variables = {}) const {
    const outcome plain = programs.run_plainly(command);
    ASSERT_EQ(plain.exit_status(), status) << plain.output;
    const outcome ours = run(command, variables);
    EXPECT_EQ(ours.exit_status(), status) << ours.output;
    EXPECT_EQ(ours.output, plain.output);
  }

  /// The processes of which figures were told, once for each time.
  static std::vector<std::string> told_of(const std::string& output) {
    const std::string heading = "espalier: heap of process ";
    std::vector<std::string> processes;
    for (std::size_t at = output.find(heading); at != std::string::npos; at = output.find(heading, at + 1)) {
      const std::size_t begin = at + heading.size();
      processes.push_back(output.substr(begin, output.find_first_not_of("0123456789", begin) - begin));
    }
    return processes;
  }

  recorded_programs programs;
};

/// Ways to end of the program endings that are told of, with the status that comes of each.
constexpr std::pair<const char*, int> told_endings[] = {
    {"return", 11}, {"exit", 12},       {"_exit", 13},
    {"_Exit", 14},  {"quick_exit", 15}, {"error", 16},
    {"thread", 17}, {"handler", 18},    {"exit_then_at_once", 18},
    {"vfork", 21}};

const std::vector<std::vector<std::string>> knobs{{},
                                                  {"ESPALIER_MALLOC_PREFAULT=1"},
                                                  {"ESPALIER_MALLOC_HUGE=1"},
                                                  {"ESPALIER_MALLOC_KEEP=0", "ESPALIER_MALLOC_DECAY=1"},
                                                  {"ESPALIER_MALLOC_KEEP=0", "ESPALIER_MALLOC_DECAY=0"}};

TEST_F(preload_malloc, is_the_one_that_programs_get) {
  EXPECT_EQ(programs.run_plainly({program("malloc_placement")}).exit_status(), 1) << "glibc's is not";
  for (const auto& variables : knobs)
    EXPECT_EQ(run({program("malloc_placement")}, variables).exit_status(), 0);
}

TEST_F(preload_malloc, keeps_glibcs_promises) {
  const outcome plain = programs.run_plainly({program("malloc_edges")});
  ASSERT_EQ(plain.exit_status(), 0) << plain.output;
  for (const auto& variables : knobs) {
    const outcome ours = run({program("malloc_edges")}, variables);
    EXPECT_EQ(ours.exit_status(), 0) << ours.output;
    EXPECT_EQ(ours.output, plain.output);
  }
}

TEST_F(preload_malloc, serves_libraries_that_are_bound_deeply) {
  expect_the_same({program("malloc_deep_binding")}, 0);
}

TEST_F(preload_malloc, serves_threads_to_their_last_destructor) {
  expect_the_same({program("malloc_threads")}, 0);
  expect_the_same({program("threads")}, 0);
  expect_the_same({program("exchange")}, 0);
}

TEST_F(preload_malloc, serves_threads_that_begin_with_a_destructor) {
  const std::string heading = "heaps of threads ";
  for (const char* const round : {"1", "2", "3", "4"}) {
    // Each may leave a heap behind, and another one gets it.
    const outcome told = run({program("malloc_late"), round, "figures"});
    EXPECT_EQ(told.exit_status(), 0) << told.output;
    EXPECT_THAT(told.output, StartsWith("late\n"));
    const std::size_t at = told.output.find(heading);
    ASSERT_NE(at, std::string::npos) << told.output;
    EXPECT_LE(std::stoul(told.output.substr(at + heading.size())), 24U) << "round " << round;
  }
}

TEST_F(preload_malloc, is_there_before_the_environment_and_behind_the_first_thread) {
  expect_the_same({program("malloc_early")}, 0);
}

TEST_F(preload_malloc, serves_copies_of_a_process_with_threads) {
  expect_the_same({program("malloc_forks")}, 0);
  expect_the_same({program("malloc_atfork")}, 0);
  expect_the_same({program("forks")}, 4);
}

TEST_F(preload_malloc, has_the_operators_of_cpp) { expect_the_same({program("every_new")}, 0); }

TEST_F(preload_malloc, has_them_before_those_of_other_allocators) {
  for (const char* const library : {"libjemalloc.so.2", "libtcmalloc_minimal.so.4"}) {
    const std::string path = std::string("/usr/lib/x86_64-linux-gnu/") + library;
    if (!std::filesystem::exists(path)) continue;
    const outcome ours = run({program("every_new")}, {"ESPALIER_MALLOC_STATS=1"}, ":" + path);
    EXPECT_EQ(ours.exit_status(), 0) << library << ours.output;
  }
}

TEST_F(preload_malloc, serves_what_comes_before_main_and_with_modules) {
  expect_the_same({program("early")}, 0);
  expect_the_same({program("every_function")}, 0);
  expect_the_same({program("modules"), program("libplugin_one.so"), program("libplugin_two.so")}, 0);
  expect_the_same({program("modules"), program("libplugin_cpp.so"), program("libplugin_cpp.so")}, 0);
}

TEST_F(preload_malloc, reports_an_invalid_free_and_ends) {
  const auto ends = [&](const char* how, const char* line) {
    const outcome ended = run({program("malloc_misuse"), how});
    EXPECT_TRUE(WIFSIGNALED(ended.status) && WTERMSIG(ended.status) == SIGABRT) << how;
    EXPECT_THAT(ended.output, HasSubstr(line));
  };
  ends("inside", "espalier: free(): invalid pointer 0x");
  ends("twice", "espalier: free(): double free, or never handed out: 0x");
  ends("small_twice", "espalier: free(): double free, or never handed out: 0x");
  ends("small_twice_running", "espalier: free(): double free, or never handed out: 0x");
  const outcome goes_on = run({program("malloc_misuse"), "foreign"});
  EXPECT_EQ(goes_on.exit_status(), 3) << goes_on.output;
  EXPECT_EQ(goes_on.output, "");
}

TEST_F(preload_malloc, tells_figures_that_add_up) {
  const outcome told = run({program("malloc_figures")});
  EXPECT_EQ(told.exit_status(), 0) << told.output;
  EXPECT_EQ(run({program("malloc_figures"), "narrow"}).exit_status(), 0) << "which stop at their most";
  EXPECT_THAT(told.output,
              AllOf(HasSubstr("espalier: heap of process"), HasSubstr("large blocks       0\n")));
}

TEST_F(preload_malloc, writes_figures_at_the_end_where_asked) {
  EXPECT_THAT(run({"/bin/ls"}, {"ESPALIER_MALLOC_STATS=1"}).output, HasSubstr("heaps of threads   1\n"));
  EXPECT_EQ(run({"/bin/true"}).output, "");
}

TEST_F(preload_malloc, writes_them_once_however_the_program_ends) {
  for (const auto& [how, status] : told_endings) {
    const outcome ended = run({program("endings"), how}, {"ESPALIER_MALLOC_STATS=1"});
    EXPECT_EQ(ended.exit_status(), status) << how;
    EXPECT_THAT(told_of(ended.output), SizeIs(1)) << how << "\n" << ended.output;
    EXPECT_THAT(ended.output, HasSubstr("heaps of threads ")) << how;
  }
  for (const char* const how : {"abort", "terminated"})
    EXPECT_THAT(told_of(run({program("endings"), how}, {"ESPALIER_MALLOC_STATS=1"}).output), IsEmpty())
        << how;
  const outcome became_another = run({program("endings"), "exec"}, {"ESPALIER_MALLOC_STATS=1"});
  EXPECT_EQ(became_another.exit_status(), 12);
  EXPECT_THAT(told_of(became_another.output), SizeIs(1)) << became_another.output;
}

TEST_F(preload_malloc, writes_them_for_each_copy) {
  const outcome ended = run({program("forks")}, {"ESPALIER_MALLOC_STATS=1"});
  EXPECT_EQ(ended.exit_status(), 4);
  const std::vector<std::string> told = told_of(ended.output);
  EXPECT_THAT(told, SizeIs(9)) << ended.output;
  EXPECT_THAT(std::set<std::string>(told.begin(), told.end()), SizeIs(9));
}

TEST_F(preload_malloc, hangs_in_no_handler_that_ends_the_program_inside_it) {
  for (int i = 0; i < 8; ++i) {
    const outcome ended = run({program("malloc_handler")}, {"ESPALIER_MALLOC_STATS=1"});
    EXPECT_EQ(ended.exit_status(), 9) << ended.status;
    EXPECT_THAT(told_of(ended.output), SizeIs(1)) << ended.output;
    EXPECT_THAT(ended.output, AnyOf(HasSubstr(": no figures, it was just changing\n"),
                                    HasSubstr("heaps of threads   1\n")));
  }
}

TEST_F(preload_malloc, passes_the_programs_end_on) {
  for (const std::string how : {"_exit", "_Exit"}) {
    for (const std::string library : {MALLOC_LIBRARY, ELIDE_LIBRARY, RANDOM_LIBRARY}) {
      const outcome ended = programs.start({program("endings"), how},
                                           {{"LD_PRELOAD", library + ":" + program("libbehind.so")}});
      EXPECT_THAT(ended.output, HasSubstr("behind: " + how + "\n")) << library;
    }
  }
  // Whoever says nothing himself lets others.
  for (const auto& [how, status] : told_endings) {
    for (const std::string both : {ELIDE_LIBRARY ":" MALLOC_LIBRARY, MALLOC_LIBRARY ":" ELIDE_LIBRARY}) {
      const outcome ended =
          programs.start({program("endings"), how}, {{"LD_PRELOAD", both}, {"ESPALIER_MALLOC_STATS", "1"}});
      EXPECT_EQ(ended.exit_status(), status) << how;
      EXPECT_THAT(told_of(ended.output), SizeIs(1)) << how;
    }
  }
}

TEST_F(preload_malloc, names_a_wrong_variable_and_goes_on) {
  const outcome told = run({"/bin/echo", "on"}, {"ESPALIER_MALLOC_KEEP=much"});
  EXPECT_EQ(told.exit_status(), 0);
  EXPECT_EQ(told.output,
            "espalier: ESPALIER_MALLOC_KEEP is not a number of MiB up to 2^27, the empty memory that is "
            "kept\non\n");
}

TEST_F(preload_malloc, takes_no_more_instructions_than_glibcs) {
#ifdef __clang__
  GTEST_SKIP() << "valgrind 3.19 gives up on clang's debug information";
#endif
  const auto counted = [&](const char* how, const char* times, bool ours) {
    const std::vector<std::string> command{
        "valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", program("malloc_counts"), how,
        times};
    return static_cast<double>(instructions((ours ? run(command) : programs.run_plainly(command)).output));
  };
  for (const char* const how : {"same", "mixed"}) {
    // The difference of two runs has neither the program's beginning nor its end in it.
    const auto each = [&](bool ours) {
      return (counted(how, "30000", ours) - counted(how, "20000", ours)) / 10'000;
    };
    const double glibc = each(false);
    if (glibc == 0) GTEST_SKIP() << "valgrind is not installed";
    const double ours = each(true);
    RecordProperty(std::string(how) + "_glibc", std::to_string(glibc));
    RecordProperty(std::string(how) + "_ours", std::to_string(ours));
    EXPECT_GT(ours, 15.0) << "is it counted at all?";
    EXPECT_LE(ours, glibc) << how;
  }
}

}  // namespace
}  // namespace espalier::test
