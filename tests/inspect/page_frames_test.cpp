// Pages of a heap and the frames behind them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "espalier/hw/pages.hpp"
#include "espalier/inspect/analysis.hpp"
#include "espalier/inspect/page_frames.hpp"
#include "espalier/inspect/page_map.hpp"

namespace espalier::inspect {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using cell = page_map::cell;
using part = page_map::part;

live_block at(std::uint64_t address, std::uint64_t bytes, type_index type = 0) {
  return {.address = address, .bytes = bytes, .type = type};
}

snapshot of(std::vector<live_block> blocks, std::size_t types = 3) {
  return make_snapshot("test", std::vector<block_type>(types), std::move(blocks));
}

TEST(page_map, of_nothing) {
  const page_map m = map_pages(of({}));
  EXPECT_THAT(m.cells, IsEmpty());
  EXPECT_EQ(m.pages_per_cell, 1u);
}

TEST(page_map, a_cell_for_each_page_with_blocks) {
  const page_map m =
      map_pages(of({at(0x1000, 64, 1), at(0x1040, 65, 0), at(0x1100, 1, 1), at(0x5000, 4096, 2)}));
  EXPECT_EQ(m.pages_per_cell, 1u);
  EXPECT_THAT(m.cells,
              ElementsAre(cell{1, 1, 1, 130, 2, {{0, 65}, {1, 65}}}, cell{5, 1, 0, 4096, 1, {{2, 4096}}}));
}

TEST(page_map, a_block_counts_in_each_of_its_pages) {
  const page_map m = map_pages(of({at(0x1ff0, 0x1020, 0), at(0x3010, 8, 1)}));
  EXPECT_THAT(m.cells, ElementsAre(cell{1, 1, 0, 16, 1, {{0, 16}}}, cell{2, 1, 0, 4096, 1, {{0, 4096}}},
                                   cell{3, 1, 1, 24, 2, {{0, 16}, {1, 8}}}));
}

TEST(page_map, a_block_of_no_bytes_is_there) {
  EXPECT_THAT(map_pages(of({at(0x1000, 0, 2)})).cells, ElementsAre(cell{1, 1, 0, 1, 1, {{2, 1}}}));
}

TEST(page_map, the_last_page_of_the_address_space) {
  const std::uint64_t last = ~std::uint64_t{0} / page_bytes;
  const page_map m = map_pages(of({at(last * page_bytes, page_bytes, 0)}));
  EXPECT_THAT(m.cells, ElementsAre(cell{last, 1, 0, 4096, 1, {{0, 4096}}}));
}

TEST(page_map, several_pages_to_a_cell_where_there_are_too_many) {
  std::vector<live_block> blocks;
  for (std::uint64_t number = 1; number <= 8; ++number)
    blocks.push_back(at(number * page_bytes, 16, number % 2));
  blocks.push_back(at(1 * page_bytes + 16, 8, 2));
  blocks.push_back(at(2 * page_bytes + 16, 8, 2));
  const snapshot s = of(std::move(blocks));
  EXPECT_EQ(map_pages(s, {8, 4}).cells.size(), 8u);
  const page_map m = map_pages(s, {7, 4});
  EXPECT_EQ(m.pages_per_cell, 2u);
  // Cells begin at multiples of their pages, so that neighbours may be parted: 1 | 2 3 | 4 5 | 6 7 | 8.
  EXPECT_THAT(
      m.cells,
      ElementsAre(cell{0, 1, 1, 24, 2, {{1, 16}, {2, 8}}}, cell{2, 2, 1, 40, 3, {{0, 16}, {1, 16}, {2, 8}}},
                  cell{4, 2, 0, 32, 2, {{0, 16}, {1, 16}}}, cell{6, 2, 0, 32, 2, {{0, 16}, {1, 16}}},
                  cell{8, 1, 0, 16, 1, {{0, 16}}}));
  EXPECT_EQ(map_pages(s, {5, 4}).cells.size(), 5u);
  EXPECT_EQ(map_pages(s, {4, 4}).pages_per_cell, 4u);
}

TEST(page_map, no_cells_are_fewer_than_one) {
  for (const std::size_t most : {0U, 1U}) {
    const page_map m = map_pages(of({at(0, 8), at(0xffff'ffff'ffff'f000, 8)}), {most, 4});
    EXPECT_EQ(m.pages_per_cell, std::uint64_t{1} << 52U);
    EXPECT_THAT(m.cells, ElementsAre(cell{0, 2, 0, 16, 1, {{0, 16}}}));
  }
}

TEST(page_map, lists_the_types_with_most_bytes_and_counts_the_rest) {
  std::vector<live_block> blocks;
  blocks.reserve(10);
  for (type_index type = 0; type < 10; ++type) blocks.push_back(at(0x1000 + 64 * type, 10 + type % 5, type));
  const page_map m = map_pages(of(std::move(blocks), 10), {4096, 3});
  EXPECT_THAT(m.cells, ElementsAre(cell{1, 1, 1, 120, 10, {{4, 14}, {9, 14}, {3, 13}}}));
}

TEST(page_map, agrees_with_the_analysis_however_coarse) {
  std::mt19937_64 random(7);
  std::vector<live_block> blocks;
  std::uint64_t address = 0x7f00'0000'0000;
  for (int i = 0; i < 3000; ++i) {
    address += random() % (i % 100 == 0 ? 5'000'000 : 600);
    const std::uint64_t bytes = random() % 20 == 0 ? random() % 20'000 : random() % 200;
    blocks.push_back(at(address, bytes, static_cast<type_index>(random() % 3)));
    address += bytes + 1;
  }
  const snapshot s = of(std::move(blocks));
  const analysis a = analyze(s, hw::cache_geometry_named("haswell"));
  for (const std::size_t most_cells : {100'000U, 500U, 60U, 7U, 1U}) {
    const page_map m = map_pages(s, {most_cells, 3});
    EXPECT_LE(m.cells.size(), most_cells);
    std::uint64_t pages = 0;
    std::uint64_t mixed = 0;
    std::uint64_t behind = 0;
    for (const cell& c : m.cells) {
      pages += c.pages;
      mixed += c.mixed_pages;
      EXPECT_EQ(c.first_page % m.pages_per_cell, 0u);
      EXPECT_GE(c.first_page, behind);
      EXPECT_LE(c.pages, m.pages_per_cell);
      behind = c.first_page + m.pages_per_cell;
      std::uint64_t bytes = 0;
      for (const part& p : c.most) bytes += p.bytes;
      EXPECT_EQ(bytes, c.bytes);
    }
    EXPECT_EQ(pages, a.pages.pages);
    EXPECT_EQ(mixed, a.pages.mixed_pages);
    std::set<std::uint64_t> finer;
    for (const page& p : s.pages) finer.insert(p.number / std::max<std::uint64_t>(1, m.pages_per_cell / 2));
    EXPECT_TRUE(m.pages_per_cell == 1 || finer.size() > most_cells) << most_cells;
  }
  EXPECT_EQ(a.map.cells, map_pages(s).cells);
}

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
