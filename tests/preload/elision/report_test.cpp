#include "preload/elision/report.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "preload/elision/learned_sites.hpp"

namespace espalier::preload {
namespace {

namespace fs = std::filesystem;
using ::testing::SizeIs;
using ::testing::StartsWith;

struct counts_report : ::testing::Test {
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "espalier-elide.XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder = pattern;
    ASSERT_TRUE(counts.start());
  }
  void TearDown() override { fs::remove_all(folder); }

  void write_to(const std::string& file) {
    std::memset(settings.counts.data(), 0, settings.counts.size());
    file.copy(settings.counts.data(), settings.counts.size() - 1);
  }
  [[nodiscard]] std::vector<std::string> lines(const std::string& file) const {
    std::ifstream in(folder / file);
    std::vector<std::string> all;
    for (std::string line; std::getline(in, line);) all.push_back(line);
    return all;
  }
  section_counts::index place(std::uintptr_t mutex, std::uintptr_t site) {
    return counts.find(section_key(mutex, site), mutex, site);
  }

  fs::path folder;
  memory_budget budget;
  section_counts counts{budget};
  elision_settings settings;
};

TEST_F(counts_report, has_a_line_for_each_mutex_and_site) {
  const auto here = reinterpret_cast<std::uintptr_t>(&report_counts) + 1;
  for (int i = 0; i < 12; ++i) counts.add(place(0xabcd0, here), 0, elision_event::commit);
  counts.add(place(0xabcd0, here), 0, elision_event::healed);
  counts.add(place(0xabcd0, here), 0, section_counts::taken);
  counts.add(place(0xef0, 16), 1, elision_event::lock_held);
  counts.add(place(0xef0, 16), 1, section_counts::taken);
  counts.add(place(0xef0, 16), 1, section_counts::waited);
  write_to((folder / "counts.%p").string());
  errno = 4321;
  EXPECT_TRUE(report_counts(settings, counts, "tle", -1));
  EXPECT_EQ(errno, 4321);
  const std::string file = "counts." + std::to_string(getpid());
  const std::vector<std::string> all = lines(file);
  ASSERT_THAT(all, SizeIs(4));
  EXPECT_EQ(all[0], "espalier elide: process " + std::to_string(getpid()) +
                        ": tle: 2 mutexes and sites, 12 sections elided, 2 taken, of which 1 waited");
  EXPECT_EQ(all[1],
            "mutex site commits conflict capacity lock-held other fallbacks healed skipped taken waited");
  const bool first_is_here = all[2].starts_with("0xabcd0");
  const std::string& at_here = all[first_is_here ? 2 : 3];
  EXPECT_THAT(at_here, StartsWith("0xabcd0 " + fs::read_symlink("/proc/self/exe").string() + "+0x"));
  EXPECT_THAT(at_here, ::testing::EndsWith(" 12 0 0 0 0 0 1 0 1 0"));
  EXPECT_EQ(all[first_is_here ? 3 : 2], "0xef0 0x10 0 0 0 1 0 0 0 0 1 1") << "code that belongs to no file";
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator{}), 1);
}

TEST_F(counts_report, of_nothing_is_a_line) {
  write_to((folder / "counts").string());
  EXPECT_TRUE(report_counts(settings, counts, "tts", -1));
  EXPECT_THAT(lines("counts"), SizeIs(1));
}

TEST_F(counts_report, leaves_nothing_half_written) {
  write_to((folder / "no" / "such" / "folder").string());
  EXPECT_FALSE(report_counts(settings, counts, "tts", -1));
  fs::create_directory(folder / "taken");
  write_to((folder / "taken").string());
  EXPECT_FALSE(report_counts(settings, counts, "tts", -1));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator{}), 1);
  EXPECT_TRUE(fs::is_empty(folder / "taken"));
}

TEST_F(counts_report, takes_no_pipes_place) {
  const fs::path pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  write_to(pipe.string());
  EXPECT_FALSE(report_counts(settings, counts, "tts", -1)) << "nobody reads";
  const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  EXPECT_TRUE(report_counts(settings, counts, "tts", -1));
  std::array<char, 256> text{};
  EXPECT_GT(read(reader, text.data(), text.size() - 1), 0);
  EXPECT_THAT(text.data(), StartsWith("espalier elide: process "));
  close(reader);
  EXPECT_TRUE(fs::is_fifo(pipe));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator{}), 1);
}

TEST_F(counts_report, may_go_to_standard_error) {
  write_to("stderr");
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(report_counts(settings, counts, "tts", STDERR_FILENO));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), StartsWith("espalier elide: process "));
}

TEST_F(counts_report, on_standard_error_is_of_the_busiest) {
  // The nth runs n times, in an order that is neither that nor its reverse; what elision spared counts as well.
  for (std::size_t i = 0; i < 25; ++i) {
    const std::size_t times = (i * 7) % 25 + 1;
    for (std::size_t n = 0; n < times; ++n)
      counts.add(place(16 * times, 16), 0,
                 times % 2 == 0 ? section_counts::taken : static_cast<std::size_t>(elision_event::commit));
  }
  write_to("stderr");
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(report_counts(settings, counts, "tle", STDERR_FILENO));
  std::istringstream said(::testing::internal::GetCapturedStderr());
  std::vector<std::string> all;
  for (std::string line; std::getline(said, line);) all.push_back(line);
  ASSERT_THAT(all, SizeIs(2 + 20 + 1));
  EXPECT_THAT(all[0], ::testing::HasSubstr(": 25 mutexes and sites, 169 sections elided, 156 taken"));
  EXPECT_EQ(all[2], "0x190 0x10 25 0 0 0 0 0 0 0 0 0");
  EXPECT_EQ(all[3], "0x180 0x10 0 0 0 0 0 0 0 0 24 0");
  EXPECT_EQ(all[21], "0x60 0x10 0 0 0 0 0 0 0 0 6 0");
  EXPECT_EQ(all[22], "others others 9 0 0 0 0 0 0 0 6 0") << "1 to 5 times";

  write_to((folder / "counts").string());
  EXPECT_TRUE(report_counts(settings, counts, "tle", -1));
  EXPECT_THAT(lines("counts"), SizeIs(2 + 25)) << "a file has all";
}

TEST_F(counts_report, for_standard_error_is_dropped_where_that_is_gone) {
  write_to("stderr");
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(report_counts(settings, counts, "tts", -1));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace espalier::preload
