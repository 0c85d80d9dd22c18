// What is counted of sections, and how it is reported.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "preload/elision/mutex_engine.hpp"
#include "preload/elision/section_counts.hpp"
#include "support/on_threads.hpp"
#include "support/reexecute.hpp"
#include "support/temporary_folder.hpp"

namespace espalier::preload {
namespace {

struct counts_of_sections : ::testing::Test {
  section_counts::index place(std::uintptr_t mutex, std::uintptr_t site) {
    return counts.find(section_key(mutex, site), mutex, site);
  }
  memory_budget budget;
  section_counts counts{budget};
};

TEST_F(counts_of_sections, nothing_is_counted_before_the_start) {
  EXPECT_FALSE(counts.counting());
  EXPECT_EQ(place(64, 1), section_counts::nowhere);
  counts.add(section_counts::nowhere, 0, elision_event::commit);
  counts.clear();
  counts.for_each([](const counted_section&) { FAIL() << "a count"; });
  EXPECT_EQ(budget.bytes(), 0U);
}

TEST_F(counts_of_sections, goes_without_memory) {
  budget.set_limit(1 << 16);
  EXPECT_FALSE(counts.start());
  EXPECT_EQ(place(64, 1), section_counts::nowhere);
}

TEST_F(counts_of_sections, are_kept_by_mutex_and_site) {
  ASSERT_TRUE(counts.start());
  EXPECT_EQ(place(64, 1), place(64, 1));
  EXPECT_NE(place(64, 1), place(64, 2));
  EXPECT_NE(place(64, 1), place(128, 1));
  counts.add(place(64, 1), 0, elision_event::commit);
  counts.add(place(64, 1), 1, elision_event::commit);
  counts.add(place(64, 1), 17, elision_event::healed);
  counts.add(place(64, 2), 3, section_counts::taken);
  counts.add(place(64, 2), 3, section_counts::waited);
  std::map<std::pair<std::uintptr_t, std::uintptr_t>, counted_section> all;
  counts.for_each([&](const counted_section& one) { all[{one.mutex, one.site}] = one; });
  ASSERT_EQ(all.size(), 2U) << "what has no count is not told of";
  EXPECT_EQ((all[{64, 1}].elided.of(elision_event::commit)), 2U);
  EXPECT_EQ((all[{64, 1}].elided.of(elision_event::healed)), 1U);
  EXPECT_EQ((all[{64, 1}].taken), 0U);
  EXPECT_EQ((all[{64, 2}].taken), 1U);
  EXPECT_EQ((all[{64, 2}].waited), 1U);
  counts.clear();
  counts.for_each([](const counted_section&) { FAIL() << "a count is left"; });
}

/// By whoever makes it so: the kernel, or clear() itself.
void expect_to_be_a_childs_own(section_counts& counts) {
  const auto place = [&](std::uintptr_t site) { return counts.find(section_key(64, site), 64, site); };
  for (const std::uintptr_t site : {1U, 2U})
    counts.add(place(site), static_cast<unsigned>(site), section_counts::taken);
  counts.add(section_counts::most_sections, 3, section_counts::taken);
  EXPECT_EQ(test::in_forked_child([&] {
              counts.clear();
              if (counts.counted()) return 1;
              int seen = 0;
              counts.for_each([&](const counted_section&) { ++seen; });
              if (seen != 0) return 2;
              for (int i = 0; i < 3; ++i) counts.add(place(2), 5, section_counts::taken);
              bool right = true;
              counts.for_each([&](const counted_section& one) {
                ++seen;
                right &= one.mutex == 64 && one.site == 2 && one.taken == 3;
              });
              if (seen != 1 || !right) return 3;
              // A second time there is something to be cleared.
              counts.clear();
              return counts.counted() ? 4 : 0;
            }),
            0);
  std::uint64_t sum = 0;
  counts.for_each([&](const counted_section& one) { sum += one.taken; });
  EXPECT_EQ(sum, 3U) << "the parent's are its own";
}

TEST_F(counts_of_sections, are_a_childs_own) {
  ASSERT_TRUE(counts.start());
  expect_to_be_a_childs_own(counts);
}

TEST_F(counts_of_sections, are_a_childs_own_where_the_kernel_wipes_its_parents) {
  counts.wipe_in_children();
  ASSERT_TRUE(counts.start());
  errno = 4321;
  counts.wipe_in_children();
  EXPECT_EQ(errno, 4321);
  expect_to_be_a_childs_own(counts);
}

TEST_F(counts_of_sections, may_begin_anew_as_often_as_one_likes) {
  ASSERT_TRUE(counts.start());
  for (std::uint64_t round = 1; round <= 3; ++round) {
    for (std::uintptr_t m = 1; m <= 50; ++m) {
      for (std::uint64_t i = 0; i < round; ++i)
        counts.add(place(64 * m, round), static_cast<unsigned>(m + i), elision_event::commit);
    }
    counts.add(section_counts::most_sections, 4, section_counts::taken);
    std::uint64_t places = 0;
    std::uintptr_t last = 1;
    counts.for_each([&](const counted_section& one) {
      ++places;
      last = one.mutex;
      EXPECT_EQ((one.elided.of(elision_event::commit)), one.mutex == 0 ? 0 : round);
    });
    EXPECT_EQ(places, 51U);
    EXPECT_EQ(last, 0U) << "the rest comes last";
    counts.clear();
    EXPECT_FALSE(counts.counted());
    counts.for_each([](const counted_section&) { FAIL() << "a count is left"; });
  }
}

TEST_F(counts_of_sections, lose_nothing_where_threads_share_stripes_and_places) {
  ASSERT_TRUE(counts.start());
  constexpr int threads = 4;
  constexpr std::uintptr_t mutexes = 200;
  test::on_threads(threads, [&](int t) {
    for (std::uintptr_t m = 1; m <= mutexes; ++m) {
      for (int i = 0; i < 50; ++i)
        counts.add(place(64 * m, 1), static_cast<unsigned>(t % 2), elision_event::commit);
    }
  });
  std::uint64_t sum = 0;
  std::set<std::uintptr_t> seen;
  counts.for_each([&](const counted_section& one) {
    sum += one.elided.of(elision_event::commit);
    EXPECT_TRUE(seen.insert(one.mutex).second) << "one mutex has two places";
  });
  EXPECT_EQ(sum, threads * mutexes * 50);
  EXPECT_EQ(seen.size(), mutexes);
}

TEST_F(counts_of_sections, the_rest_is_counted_together) {
  ASSERT_TRUE(counts.start());
  constexpr std::uintptr_t mutexes = 3 * section_counts::most_sections;
  for (std::uintptr_t m = 1; m <= mutexes; ++m) counts.add(place(64 * m, 1), 0, elision_event::fallback);
  std::uint64_t sum = 0;
  std::uint64_t places = 0;
  std::uint64_t rest = 0;
  counts.for_each([&](const counted_section& one) {
    ++places;
    sum += one.elided.of(elision_event::fallback);
    if (one.mutex == 0) rest = one.elided.of(elision_event::fallback);
  });
  EXPECT_EQ(sum, mutexes);
  EXPECT_LE(places, section_counts::most_sections + 1);
  EXPECT_GT(places, section_counts::most_sections / 2);
  EXPECT_GE(rest, mutexes - section_counts::most_sections);
}

TEST(elision_sites, have_a_place_for_each_key_and_use_all) {
  elision_sites sites;
  std::set<elision_site*> used;
  for (std::uintptr_t m = 1; m <= 20 * elision_sites::places; ++m)
    used.insert(&sites.of(section_key(40 * m, 7)));
  EXPECT_EQ(used.size(), elision_sites::places);
  EXPECT_EQ(&sites.of(section_key(40, 7)), &sites.of(section_key(40, 7)));
  elision_site& site = sites.of(section_key(40, 7));
  EXPECT_EQ(site.history(), elision_history{});
  site.learn(elision_history{}.after_fallback(elision_obstacle::mendable));
  EXPECT_TRUE(site.history().heals());
}

namespace fs = std::filesystem;
using ::testing::SizeIs;
using ::testing::StartsWith;

struct counts_report : counts_of_sections, test::temporary_folder {
  void SetUp() override { ASSERT_TRUE(counts.start()); }

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

  const fs::path& folder = path();
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
