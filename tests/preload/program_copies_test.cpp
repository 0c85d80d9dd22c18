// Copies of a process whose mutexes are counted: what they tell, and what it costs them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "recorded_program.hpp"

namespace espalier::test {
namespace {

using ::testing::UnorderedElementsAre;

struct preload_copies : ::testing::Test {
  /// A row of so many copies, each of which takes a mutex so often.
  [[nodiscard]] outcome run(const char* copies, const char* times, const char* counts,
                            std::vector<std::string> under = {}) const {
    under.insert(under.end(), {program("mutex_copies"), copies, times});
    recorded_programs::variables environment{{"LD_PRELOAD", ELIDE_LIBRARY}, {"ESPALIER_ELIDE_POLICY", "tts"}};
    if (*counts != 0) environment.emplace_back("ESPALIER_ELIDE_STATS", (runs.folder() / counts).string());
    return runs.start(under, environment);
  }
  /// Of the last copy, with all that were before it.
  [[nodiscard]] double instructions_of(const char* copies, const char* counts) const {
    return static_cast<double>(instructions(
        run(copies, "0", counts, {"valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"}).output));
  }

  recorded_programs runs;
};

TEST_F(preload_copies, tell_what_they_counted_themselves) {
  EXPECT_EQ(run("3", "7", "%p").exit_status(), 5);
  std::vector<std::string> told;
  for (const std::string& file : runs.files()) {
    std::ifstream in(runs.folder() / file);
    std::string line;
    ASSERT_TRUE(std::getline(in, line));
    told.push_back(line.substr(line.find(": tts: ")));
    int lines = 0;
    while (std::getline(in, line)) ++lines;
    // Heads, and each place.
    EXPECT_TRUE(lines == 2 || lines == 201) << lines;
  }
  const std::string of_copy = ": tts: 1 mutexes and sites, 0 sections elided, 7 taken, of which 0 waited";
  EXPECT_THAT(told, UnorderedElementsAre(
                        ": tts: 200 mutexes and sites, 0 sections elided, 200 taken, of which 0 waited",
                        of_copy, of_copy, of_copy));
}

TEST_F(preload_copies, say_nothing_if_they_counted_nothing) {
  EXPECT_EQ(run("3", "0", "%p").exit_status(), 5);
  EXPECT_EQ(runs.files().size(), 1U) << "of the first alone";
}

TEST_F(preload_copies, cost_nothing_that_is_of_their_parents_counts) {
#ifdef __clang__
  GTEST_SKIP() << "valgrind 3.19 gives up on clang's debug information";
#endif
  // The difference of two rows has neither the program's beginning nor its end in it.
  const auto each = [&](const char* counts) {
    return (instructions_of("6", counts) - instructions_of("2", counts)) / 4;
  };
  const double plain = each("");
  if (plain == 0) GTEST_SKIP() << "valgrind is not installed";
  const double counted = each("counts");
  RecordProperty("plain", std::to_string(plain));
  RecordProperty("counted", std::to_string(counted));
  EXPECT_GT(plain, 100) << "is it counted at all?";
  EXPECT_LT(counted, 2 * plain) << "two million, to clear a table by hand";
}

}  // namespace
}  // namespace espalier::test
