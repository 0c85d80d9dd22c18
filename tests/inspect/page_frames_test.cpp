#include "espalier/inspect/page_frames.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "espalier/hw/pages.hpp"

namespace espalier::inspect {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

constexpr std::uint64_t present = std::uint64_t{1} << 63U;
constexpr std::uint64_t transparent = std::uint64_t{1} << 22U;
constexpr std::uint64_t hugetlb = std::uint64_t{1} << 17U;

/// The kernel's files, with what the test puts into them. Those not put are not there.
class page_frames : public testing::Test {
 protected:
  page_frames() : folder_(fs::path(testing::TempDir()) / ("page_frames_test." + std::to_string(getpid()))) {
    fs::create_directories(folder_);
  }
  ~page_frames() override { fs::remove_all(folder_); }

  page_sources sources() const {
    return {(folder_ / "pagemap").string(), (folder_ / "kpageflags").string(), (folder_ / "smaps").string()};
  }

  void put(const char* name, const std::map<std::uint64_t, std::uint64_t>& words) const {
    std::ofstream out(folder_ / name, std::ios::binary);
    for (const auto& [index, word] : words) {
      out.seekp(static_cast<std::streamoff>(index * 8));
      out.write(reinterpret_cast<const char*>(&word), sizeof word);
    }
  }
  void put_mappings(const std::string& text) const { std::ofstream(folder_ / "smaps") << text; }

  fs::path folder_;
};

snapshot with_pages(std::initializer_list<std::uint64_t> numbers) {
  std::vector<live_block> blocks;
  for (const std::uint64_t number : numbers) blocks.push_back({number * page_bytes, 64, 0, 0});
  return make_snapshot("test", {{"a", false, {}, {}}}, std::move(blocks));
}

std::vector<std::optional<std::uint64_t>> frames_of(const snapshot& s) {
  std::vector<std::optional<std::uint64_t>> all;
  for (const page& p : s.pages) all.push_back(p.frame());
  return all;
}

std::vector<std::optional<bool>> sizes_of(const snapshot& s) {
  std::vector<std::optional<bool>> all;
  for (const page& p : s.pages) all.push_back(p.huge());
  return all;
}

using frames = std::vector<std::optional<std::uint64_t>>;
using sizes = std::vector<std::optional<bool>>;

TEST_F(page_frames, as_the_kernel_tells_them) {
  put("pagemap", {{1, present | 77}, {2, present | (std::uint64_t{1} << 61U) | 5}, {600, present | 1024}});
  put("kpageflags", {{5, 0}, {77, 1}, {1024, 0}});
  snapshot s = with_pages({1, 2, 600});
  find_frames(s, sources());
  EXPECT_EQ(frames_of(s), (frames{77, 5, 1024}));
  EXPECT_EQ(sizes_of(s), (sizes{false, false, false}));
  EXPECT_EQ(s.frames_unknown, "");
  EXPECT_EQ(s.huge_unknown, "");
}

TEST_F(page_frames, long_runs_and_jumps) {
  std::map<std::uint64_t, std::uint64_t> words;
  std::vector<live_block> blocks;
  frames expected;
  for (std::uint64_t number = 1; number < 5000; number += number % 1500 == 0 ? 700 : 1) {
    words[number] = present | (number * 7 + 1);
    blocks.push_back({number * page_bytes, 64, 0, 0});
    expected.emplace_back(number * 7 + 1);
  }
  put("pagemap", words);
  snapshot s = make_snapshot("test", {{"a", false, {}, {}}}, std::move(blocks));
  find_frames(s, sources());
  EXPECT_EQ(frames_of(s), expected);
  EXPECT_EQ(s.frames_unknown, "");
}

TEST_F(page_frames, huge_pages_are_flagged_and_aligned) {
  put("pagemap", {{512, present | 1024}, {513, present | 1025}, {514, present | 7}, {515, present | 8}});
  put("kpageflags", {{1024, transparent}, {1025, transparent}, {7, transparent}, {8, hugetlb}});
  snapshot s = with_pages({512, 513, 514, 515});
  find_frames(s, sources());
  // The third is part of a transparent page of another size.
  EXPECT_EQ(sizes_of(s), (sizes{true, true, false, true}));
}

TEST_F(page_frames, says_why_there_are_none) {
  snapshot s = with_pages({1, 2});
  find_frames(s, sources());
  EXPECT_EQ(frames_of(s), (frames{std::nullopt, std::nullopt}));
  EXPECT_THAT(s.frames_unknown, AllOf(HasSubstr("pagemap"), HasSubstr("No such file")));
  EXPECT_THAT(s.huge_unknown, AllOf(HasSubstr("kpageflags"), HasSubstr("2 of 2 pages")));

  put("pagemap", {{1, present}, {2, present}});
  find_frames(s, sources());
  EXPECT_THAT(s.frames_unknown, HasSubstr("CAP_SYS_ADMIN"));

  put("pagemap", {{1, present | 9}, {2, std::uint64_t{1} << 62U | 9}});
  put("kpageflags", {{9, 0}});
  find_frames(s, sources());
  EXPECT_EQ(frames_of(s), (frames{9, std::nullopt}));
  EXPECT_EQ(s.frames_unknown, "1 of 2 pages are not in memory");
  EXPECT_EQ(sizes_of(s), (sizes{false, std::nullopt}));
  EXPECT_THAT(s.huge_unknown, HasSubstr("1 of 2 pages"));
}

TEST_F(page_frames, what_was_known_before_is_forgotten) {
  put("pagemap", {{1, present | 77}});
  put("kpageflags", {{77, 0}});
  snapshot s = with_pages({1});
  find_frames(s, sources());
  fs::remove(folder_ / "pagemap");
  find_frames(s, sources());
  EXPECT_EQ(frames_of(s), (frames{std::nullopt}));
  EXPECT_EQ(sizes_of(s), (sizes{std::nullopt}));
}

TEST_F(page_frames, a_directory_is_no_page_map) {
  fs::create_directories(folder_ / "pagemap");
  snapshot s = with_pages({1});
  find_frames(s, sources());
  EXPECT_THAT(s.frames_unknown, HasSubstr("directory"));
}

std::string mapping_of(const std::string& range, int rss, int huge, int page_size = 4) {
  return range +
         " rw-p 00000000 00:00 0    [heap]\nSize: 1 kB\nKernelPageSize:    " + std::to_string(page_size) +
         " kB\nRss:     " + std::to_string(rss) + " kB\nAnonHugePages:   " + std::to_string(huge) +
         " kB\nVmFlags: rd wr\n";
}

TEST_F(page_frames, mappings_tell_sizes_where_all_pages_are_alike) {
  put_mappings(mapping_of("1000-3000", 8, 0) + mapping_of("200000-600000", 4096, 4096) +
               mapping_of("800000-c00000", 4096, 2048) + mapping_of("1000000-1200000", 0, 0, 2048));
  snapshot s = with_pages({1, 2, 3, 0x200, 0x5ff, 0x600, 0x900, 0x1000, 0x1200});
  find_frames(s, sources());
  EXPECT_EQ(sizes_of(s),
            (sizes{false, false, std::nullopt, true, true, std::nullopt, std::nullopt, true, std::nullopt}));
  EXPECT_THAT(s.huge_unknown, AllOf(HasSubstr("smaps"), HasSubstr("4 of 9 pages")));
}

TEST_F(page_frames, mappings_in_no_form_tell_nothing) {
  put_mappings("Rss: 4 kB\nx-y rw\nAnonHugePages:\n-\n\n1000-\n1000-2000zz rw\n");
  snapshot s = with_pages({1});
  find_frames(s, sources());
  EXPECT_EQ(sizes_of(s), (sizes{std::nullopt}));
}

/// The same memory, mapped twice.
class mapped_twice {
 public:
  mapped_twice() : descriptor_(memfd_create("page_frames_test", 0)) {
    if (ftruncate(descriptor_, 4096) != 0) return;
    for (void*& m : at) m = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
    for (void* m : at) std::memset(m, 1, 4096);
  }
  ~mapped_twice() {
    for (void* m : at) munmap(m, 4096);
    close(descriptor_);
  }
  void* at[2] = {};

 private:
  int descriptor_;
};

TEST(page_frames_of_this_process, one_frame_is_seen_through_two_pages) {
  const mapped_twice twice;
  const hw::page_run other = hw::map_pages(4096, {.prefault = true});
  std::vector<live_block> blocks;
  for (const void* m : {static_cast<const void*>(twice.at[0]), static_cast<const void*>(twice.at[1]),
                        static_cast<const void*>(other.data())})
    blocks.push_back({reinterpret_cast<std::uintptr_t>(m), 64, 0,
                      blocks.empty()       ? 0U
                      : blocks.size() == 1 ? 1U
                                           : 2U});
  snapshot s =
      make_snapshot("test", {{"a", false, {}, {}}, {"b", false, {}, {}}, {"c", false, {}, {}}}, blocks);
  find_frames(s);
  ASSERT_EQ(s.pages.size(), 3u);
  if (!s.frames_unknown.empty()) {
    EXPECT_THAT(s.frames_unknown, MatchesRegex(".*(CAP_SYS_ADMIN|denied|No such file).*"));
    return;
  }
  std::map<type_index, std::uint64_t> frame;
  for (std::size_t i = 0; i < 3; ++i) frame[s.blocks[i].type] = s.pages[i].frame().value();
  EXPECT_EQ(frame[0], frame[1]);
  EXPECT_NE(frame[0], frame[2]);
}

TEST(page_frames_of_this_process, an_ordinary_page_is_known_to_be_small) {
  // A mapping between two that cannot be read, lest the kernel merge it with a neighbour of unlike pages.
  constexpr std::size_t bytes = 3 * 4096;
  void* const area = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(area, MAP_FAILED);
  auto* const middle = static_cast<char*>(area) + 4096;
  ASSERT_EQ(mprotect(middle, 4096, PROT_READ | PROT_WRITE), 0);
  *middle = 1;
  snapshot s =
      make_snapshot("test", {{"a", false, {}, {}}}, {{reinterpret_cast<std::uintptr_t>(middle), 64, 0, 0}});
  find_frames(s);
  EXPECT_EQ(sizes_of(s), (sizes{false}));
  EXPECT_EQ(s.huge_unknown, "");
  munmap(area, bytes);
}

}  // namespace
}  // namespace espalier::inspect
