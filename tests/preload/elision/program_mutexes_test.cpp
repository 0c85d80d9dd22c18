// Whole programs under libespalier-elide.so: what they say of themselves, and that it was ours that they locked by.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "espalier/hw/htm.hpp"

namespace espalier::test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct outcome {
  int status;
  std::string output;  // both streams
};

/// By the shell, which is not under the preload itself.
outcome run(const std::string& command) {
  outcome ended{-1, {}};
  std::FILE* const pipe = popen(("exec 2>&1; " + command).c_str(), "r");
  if (pipe == nullptr) return ended;
  std::array<char, 4096> part{};
  while (const std::size_t n = fread(part.data(), 1, part.size(), pipe)) ended.output.append(part.data(), n);
  ended.status = pclose(pipe);
  return ended;
}

outcome run_eliding(const std::string& settings, const std::string& command) {
  return run("exec env LD_PRELOAD=" PRELOAD_LIBRARY " " + settings + " " + command);
}

const std::string mutexes = PROGRAMS_FOLDER "/mutexes";
const std::string waiting = PROGRAMS_FOLDER "/waiting_mutexes";
const std::string ending = PROGRAMS_FOLDER "/ending_mutexes";
const std::string plugin = PROGRAMS_FOLDER "/plugin.so";

struct elided_program : ::testing::Test {
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "espalier-elide.XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder = pattern;
  }
  void TearDown() override { fs::remove_all(folder); }

  [[nodiscard]] std::string counts() const { return "ESPALIER_ELIDE_STATS=" + (folder / "counts").string(); }
  [[nodiscard]] std::string counted() const {
    std::ifstream in(folder / "counts");
    return {std::istreambuf_iterator<char>(in), {}};
  }
  /// Sums of some columns over the lines with this file in their site.
  struct sums {
    unsigned long commits = 0, conflicts = 0, capacity = 0, fallbacks = 0, taken = 0, waited = 0;
  };
  [[nodiscard]] sums of_sites_in(const std::string& file) const {
    std::istringstream in(counted());
    sums all;
    for (std::string line; std::getline(in, line);) {
      if (line.find(file + "+0x") == std::string::npos) continue;
      std::istringstream words(line);
      std::vector<std::string> columns{std::istream_iterator<std::string>(words), {}};
      if (columns.size() < 12) continue;
      all.commits += std::stoul(columns[columns.size() - 10]);
      all.conflicts += std::stoul(columns[columns.size() - 9]);
      all.capacity += std::stoul(columns[columns.size() - 8]);
      all.fallbacks += std::stoul(columns[columns.size() - 5]);
      all.taken += std::stoul(columns[columns.size() - 2]);
      all.waited += std::stoul(columns[columns.size() - 1]);
    }
    return all;
  }

  /// What a program does by itself, it does under the preload.
  void expect_the_same(const std::string& command) {
    const outcome plain = run("exec env " + command);
    EXPECT_EQ(plain.status, 0) << plain.output;
    const auto expect_like_plain = [&](const outcome& ended, const char* how) {
      EXPECT_EQ(ended.status, plain.status) << how;
      EXPECT_EQ(ended.output, plain.output) << how;
    };
    for (const char* const settings : {"ESPALIER_ELIDE_POLICY=tts", "", "ESPALIER_ELIDE_RTM=off"})
      expect_like_plain(run_eliding(settings, command), settings);
    expect_like_plain(
        run("exec env LD_PRELOAD=" ABORTING_LIBRARY " " + counts() + " ESPALIER_ELIDE_POLICY=tle " + command),
        "all attempts abort");
  }

  fs::path folder;
};

TEST_F(elided_program, mutexes_are_as_posix_says_and_are_waited_for_as_they_were) {
  for (const std::string& program : {mutexes, waiting}) {
    expect_the_same(program);
    // Attempts that come to nothing end at the mutex.
    EXPECT_THAT(counted(), HasSubstr(": tle: ")) << "as where there are transactions";
    EXPECT_GT(of_sites_in(program).conflicts, 0U);
    EXPECT_GT(of_sites_in(program).fallbacks, 0U);
    EXPECT_EQ(of_sites_in(program).commits, 0U);
  }
}

TEST_F(elided_program, mutexes_may_come_before_the_environment) {
  expect_the_same(PROGRAMS_FOLDER "/early_mutexes");
}

TEST_F(elided_program, mutexes_of_cpp_are_as_they_were) { expect_the_same(PROGRAMS_FOLDER "/std_mutexes"); }

TEST_F(elided_program, mutexes_of_modules_that_come_and_go) {
  expect_the_same(mutexes + " plugin " + plugin);
  const outcome ended = run_eliding(counts() + " ESPALIER_ELIDE_POLICY=tts", mutexes + " plugin " + plugin);
  EXPECT_EQ(ended.status, 0) << ended.output;
  // Where the module was loaded three times to one address there is one line, otherwise up to three.
  EXPECT_GE(of_sites_in(plugin).taken, 4000U) << counted();
}

TEST_F(elided_program, a_normal_mutex_that_its_holder_locks_again_is_a_deadlock) {
  for (const char* const settings : {"ESPALIER_ELIDE_POLICY=tts", ""}) {
    const outcome ended = run_eliding(settings, mutexes + " relock");
    EXPECT_TRUE(WIFSIGNALED(ended.status) && WTERMSIG(ended.status) == SIGALRM) << ended.status;
  }
}

TEST_F(elided_program, mutexes_are_ours_where_the_c_library_elides_its_own) {
  // Without transactions it does not, and says nothing.
  const std::string eliding_itself = "GLIBC_TUNABLES=glibc.elision.enable=1 ";
  expect_the_same(eliding_itself + PROGRAMS_FOLDER "/shared_mutex");
  const outcome waited = run_eliding("", eliding_itself + waiting);
  EXPECT_EQ(waited.status, 0) << waited.output;
  const outcome ended = run_eliding(counts() + " ESPALIER_ELIDE_POLICY=tts", eliding_itself + mutexes);
  EXPECT_EQ(ended.output, "all is as it should be\n");
  EXPECT_THAT(counted(), AllOf(StartsWith("espalier elide: process "), HasSubstr(": tts: ")));
  EXPECT_GE(of_sites_in(mutexes).taken, 24'000U) << "of the exclusion alone, all by us: two mutexes, four "
                                                    "threads, 3000 rounds";
  EXPECT_GT(of_sites_in(mutexes).waited, 0U);
  EXPECT_EQ(of_sites_in(mutexes).commits, 0U);
}

TEST_F(elided_program, mutexes_are_as_they_were_where_there_are_transactions) {
  if (!hw::rtm::available()) GTEST_SKIP() << "no RTM: " << hw::rtm::probe().reason;
  // Often, for what commits is a matter of chance.
  for (int i = 0; i < 5; ++i) {
    for (const std::string& program : {mutexes, waiting}) {
      const outcome plain = run("exec env " + program);
      const outcome ended = run_eliding(counts() + " ESPALIER_ELIDE_POLICY=tle", program);
      EXPECT_EQ(ended.output, plain.output);
      EXPECT_EQ(ended.status, 0);
      EXPECT_GT(of_sites_in(program).commits, 0U) << counted();
    }
  }
}

#if defined(EMULATED_RTM)
/// By transactions that software carries out: all commits, every other or so aborted somewhere, and hardly any that
/// fits the cache.
TEST_F(elided_program, mutexes_are_as_they_were_under_emulated_transactions) {
  const std::string std_mutexes = PROGRAMS_FOLDER "/std_mutexes";
  const char* const scale = std::getenv("ESPALIER_STRESS_SCALE");
  const std::string fewer = scale != nullptr && std::atof(scale) > 1
                                ? "ROUNDS_DIVIDED_BY=250 "
                                : "ROUNDS_DIVIDED_BY=500 TIMES_DIVIDED_BY=10 ";
  for (const std::string& program : {mutexes, waiting, std_mutexes}) {
    const outcome plain = run("exec env " + fewer + program);
    for (const std::string how : {"", "abort_every=2", "abort_every=3,sets=1,ways=9"}) {
      fs::remove(folder / "counts");
      const outcome ended =
          run("exec env " + fewer + "LD_PRELOAD=" EMULATED_RTM ":" PRELOAD_LIBRARY " " + counts() +
              " ESPALIER_ELIDE_POLICY=tle ESPALIER_EMULATED_RTM=" + how + " " + program);
      EXPECT_EQ(ended.output, plain.output) << how;
      EXPECT_EQ(ended.status, 0) << program << how;
      const sums of_program = of_sites_in(program);
      EXPECT_GT(of_program.commits, 0U) << how << counted();
      EXPECT_EQ(of_program.conflicts != 0, how.starts_with("abort_every")) << how;
      EXPECT_EQ(of_program.capacity != 0, how.ends_with("ways=9")) << how;
    }
  }
}

TEST_F(elided_program, modules_come_and_go_under_emulated_transactions) {
  const outcome ended = run("exec env ROUNDS_DIVIDED_BY=20 LD_PRELOAD=" EMULATED_RTM ":" PRELOAD_LIBRARY " " +
                            counts() + " ESPALIER_ELIDE_POLICY=tle " + mutexes + " plugin " + plugin);
  EXPECT_EQ(ended.status, 0) << ended.output;
  EXPECT_GT(of_sites_in(plugin).commits, 0U) << counted();
}
#endif

TEST_F(elided_program, counts_are_there_however_the_program_ends) {
  const struct {
    const char* how;
    int status;
  } endings[] = {{"exit", 12},    {"_exit", 13}, {"_Exit", 14},     {"quick_exit", 15},
                 {"handler", 18}, {"vfork", 21}, {"idle_copy", 23}, {"exit_then_at_once", 18}};
  for (const auto& [how, status] : endings) {
    fs::remove(folder / "counts");
    const outcome ended = run_eliding(counts() + " ESPALIER_ELIDE_POLICY=tts", ending + " " + how);
    EXPECT_TRUE(WIFEXITED(ended.status)) << how;
    EXPECT_EQ(WEXITSTATUS(ended.status), status) << how;
    EXPECT_EQ(ended.output, how + std::string("\n"));
    const unsigned long after_vfork = std::string(how) == "vfork" ? 11 : 0;
    EXPECT_EQ(of_sites_in(ending).taken, 100 + after_vfork) << how << "\n" << counted();
    EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator{}), 1) << how;
  }
}

TEST_F(elided_program, is_told_once_what_is_wrong_and_goes_on) {
  const struct {
    const char* settings;
    const char* told;
  } cases[] = {
      {"ESPALIER_ELIDE_POLICY=tle",
       hw::rtm::available() ? "" : "this processor has no transactions; mutexes are taken, none is elided"},
      {"ESPALIER_ELIDE_POLICY=tle ESPALIER_ELIDE_RTM=auto", ""},
      {"ESPALIER_ELIDE_POLICY=fast ESPALIER_ELIDE_RTM=off",
       "ESPALIER_ELIDE_POLICY is neither tts nor tle; it is taken for tle"},
      {"ESPALIER_ELIDE_STATS=/no/such/folder/file ESPALIER_ELIDE_POLICY=tts",
       "the counts could not be written where ESPALIER_ELIDE_STATS says"}};
  for (const auto& [settings, told] : cases) {
    const outcome ended = run_eliding(settings, mutexes + " plugin " + plugin);
    EXPECT_EQ(ended.status, 0) << settings;
    EXPECT_EQ(ended.output, *told == 0 ? "" : std::string("espalier elide: ") + told + "\n") << settings;
  }
}

}  // namespace
}  // namespace espalier::test
