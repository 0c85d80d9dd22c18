#include "espalier/inspect/snapshot_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "espalier/inspect/snapshot_format.hpp"

namespace espalier::inspect {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class snapshot_file : public testing::Test {
 protected:
  snapshot_file()
      : folder_(fs::path(testing::TempDir()) / ("snapshot_file_test." + std::to_string(getpid()))) {
    fs::create_directories(folder_);
  }
  ~snapshot_file() override { fs::remove_all(folder_); }

  fs::path file() const { return folder_ / "it.snapshot"; }

  std::string content() const {
    std::ifstream in(file(), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  void put(std::string_view bytes) const {
    // Some file systems write a file to disk at once where it replaces the content of another.
    fs::remove(file());
    std::ofstream(file(), std::ios::binary) << bytes;
  }

  /// Why the file is refused, in one line; "accepted" where it is not.
  std::string refusal() const {
    try {
      static_cast<void>(read_snapshot(file()));
    } catch (const std::invalid_argument& wrong) {
      const std::string why = wrong.what();
      EXPECT_THAT(why, HasSubstr("it.snapshot"));
      EXPECT_EQ(why.find('\n'), std::string::npos) << why;
      return why;
    }
    return "accepted";
  }

  fs::path folder_;
};

snapshot some_snapshot() {
  snapshot s = make_snapshot(
      "a test",
      {{"node", true, {{0, 8}}, {{8, 8}, {16, 8}}},
       {"", false, {}, {}},
       {"leaf\nof \xff", false, {{0, 16}}, {}}},
      {{0x7f0000001000, 48, 0, 0}, {0x7f0000001030, 40, 8, 2}, {0x7f0000003fff, 8192, 4096, 1}});
  s.facts = {{"sampling", "every block"}, {"", ""}};
  for (page& p : s.pages) p.set_huge(p.number % 2 == 0);
  s.pages[0].set_frame(12345);
  s.huge_unknown.clear();
  s.frames_unknown = "not permitted";
  s.links = {{0, 1}, {0, 2}, {1, 0}};
  s.links_unknown.clear();
  return s;
}

TEST_F(snapshot_file, gives_back_what_was_written) {
  write_snapshot(some_snapshot(), file());
  EXPECT_EQ(read_snapshot(file()), some_snapshot());
  EXPECT_THAT(std::vector<fs::path>(fs::directory_iterator(folder_), {}), ElementsAre(file()));
}

TEST_F(snapshot_file, of_nothing) {
  write_snapshot({}, file());
  EXPECT_EQ(read_snapshot(file()), snapshot{});
}

TEST_F(snapshot_file, replaces_one_that_is_there) {
  put("something longer than a header, to be sure of it");
  write_snapshot(some_snapshot(), file());
  EXPECT_EQ(read_snapshot(file()), some_snapshot());
}

TEST_F(snapshot_file, an_output_not_committed_leaves_nothing) {
  {
    hw::output_file output(file());
    output.write("half");
  }
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(snapshot_file, every_truncation_is_refused) {
  write_snapshot(some_snapshot(), file());
  const std::string whole = content();
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    put(whole.substr(0, bytes));
    ASSERT_THAT(refusal(), HasSubstr(bytes < 8 ? "is no snapshot" : "cut short")) << bytes;
  }
  put(whole + std::string(8, '\0'));
  EXPECT_THAT(refusal(), HasSubstr("behind its end"));
}

TEST_F(snapshot_file, every_flipped_bit_is_noticed) {
  write_snapshot(some_snapshot(), file());
  const std::string whole = content();
  for (std::size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    put(damaged);
    ASSERT_NE(refusal(), "accepted") << "byte " << bit / 8;
  }
}

TEST_F(snapshot_file, random_damage_is_noticed) {
  write_snapshot(some_snapshot(), file());
  const std::string whole = content();
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::string damaged = whole;
    for (auto n = 1 + random() % 30; n > 0; --n)
      damaged[random() % damaged.size()] = static_cast<char>(random());
    if (damaged == whole) continue;
    put(damaged);
    ASSERT_NE(refusal(), "accepted") << "round " << round;
  }
}

struct part {
  std::uint32_t tag;
  std::uint32_t flags;
  std::string payload;
};

/// A file whose checksums are right, whatever is in it.
std::string file_of(const std::vector<part>& parts, std::uint32_t version = format::version) {
  std::string entries;
  std::string payloads;
  const std::size_t first = sizeof(format::header) + parts.size() * sizeof(format::section_entry);
  for (const part& p : parts) {
    format::checksum sum;
    sum.add(p.payload.data(), p.payload.size());
    const format::section_entry e{p.tag, p.flags, first + payloads.size(), p.payload.size(), sum.sum()};
    entries.append(reinterpret_cast<const char*>(&e), sizeof e);
    payloads += p.payload;
    payloads.resize(format::padded(payloads.size()), '\0');
  }
  std::string head(format::magic);
  for (const std::uint32_t word : {version, static_cast<std::uint32_t>(parts.size())})
    head.append(reinterpret_cast<const char*>(&word), sizeof word);
  format::checksum sum;
  sum.add(head.data(), head.size());
  sum.add(entries.data(), entries.size());
  const std::uint64_t check = sum.sum();
  head.append(reinterpret_cast<const char*>(&check), sizeof check);
  return head + entries + payloads;
}

std::string words(std::initializer_list<std::uint32_t> all) {
  std::string bytes;
  for (const std::uint32_t word : all) bytes.append(reinterpret_cast<const char*>(&word), sizeof word);
  return bytes;
}

constexpr auto types = static_cast<std::uint32_t>(format::section::types);
constexpr auto blocks = static_cast<std::uint32_t>(format::section::blocks);
constexpr auto pages = static_cast<std::uint32_t>(format::section::pages);

TEST_F(snapshot_file, sections_may_lack_and_be_unknown) {
  put(file_of({}));
  EXPECT_EQ(read_snapshot(file()), snapshot{});
  put(file_of({{1000, format::may_be_skipped, "news"}, {types, 0, words({1, 1}) + "x" + words({1, 0, 0})}}));
  EXPECT_EQ(read_snapshot(file()).types, (std::vector<block_type>{{"x", true, {}, {}}}));
  put(file_of({{1000, 0, "news"}}));
  EXPECT_THAT(refusal(), HasSubstr("has a section 1000 that this program does not know"));
}

TEST_F(snapshot_file, refuses_other_versions_and_other_files) {
  put(file_of({}, 2));
  EXPECT_THAT(refusal(), HasSubstr("is a snapshot of version 2; this program reads version 1"));
  put("{\"context\": {\"date\": \"today\"}}");
  EXPECT_THAT(refusal(), HasSubstr("is no snapshot of a memory layout"));
  put("");
  EXPECT_THAT(refusal(), HasSubstr("is no snapshot of a memory layout"));
}

TEST_F(snapshot_file, refuses_what_only_its_checksums_bear_out) {
  const std::string one_type = words({1, 0, 0, 0, 0});
  put(file_of({{types, 0, one_type}, {types, 0, one_type}}));
  EXPECT_THAT(refusal(), HasSubstr("occurs twice"));
  put(file_of({{types, 0, one_type + words({0})}}));
  EXPECT_THAT(refusal(), HasSubstr("longer than what it holds"));
  // Numbers of texts, types and ranges far beyond the section: no memory is asked for on their word.
  for (const auto& lie : {words({0xffffffff}), words({1, 0xffffffff}), words({1, 0, 0, 0xffffffff}),
                          words({2, 0, 0, 0, 0}), std::string("abc")}) {
    put(file_of({{types, 0, lie}}));
    EXPECT_THAT(refusal(), HasSubstr("shorter than what it holds"));
  }
  put(file_of({{types, 0, one_type}, {blocks, 0, std::string(23, '\0')}}));
  EXPECT_THAT(refusal(), HasSubstr("part of an entry"));
  put(file_of({{blocks, 0, std::string(24, '\0')}}));
  EXPECT_THAT(refusal(), HasSubstr("there are 0 types"));
  put(file_of({{types, 0, one_type}, {blocks, 0, std::string(48, '\0')}, {pages, 0, std::string(16, '\0')}}));
  EXPECT_THAT(refusal(), HasSubstr("overlap"));
  put(file_of({{types, 0, one_type}, {blocks, 0, std::string(24, '\0')}}));
  EXPECT_THAT(refusal(), HasSubstr("not listed"));
}

TEST_F(snapshot_file, refuses_sections_that_lie_elsewhere) {
  for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{64}, ~std::uint64_t{0}}) {
    for (const std::uint64_t bytes : {std::uint64_t{8}, std::uint64_t{1} << 62, ~std::uint64_t{0} - 60}) {
      format::section_entry e{1000, format::may_be_skipped, offset, bytes, 0};
      std::string head(format::magic);
      head += words({format::version, 1});
      format::checksum sum;
      sum.add(head.data(), head.size());
      sum.add(&e, sizeof e);
      const std::uint64_t check = sum.sum();
      head.append(reinterpret_cast<const char*>(&check), sizeof check);
      put(head + std::string(reinterpret_cast<const char*>(&e), sizeof e) + std::string(8, '\0'));
      ASSERT_NE(refusal(), "accepted") << offset << ' ' << bytes;
    }
  }
}

TEST_F(snapshot_file, says_why_it_cannot_read) {
  EXPECT_THROW(static_cast<void>(read_snapshot(file())), std::system_error);
  try {
    static_cast<void>(read_snapshot(folder_));
    FAIL() << "no exception";
  } catch (const std::invalid_argument& wrong) {
    EXPECT_THAT(wrong.what(), HasSubstr("is no file"));
  }
}

TEST_F(snapshot_file, says_early_that_it_cannot_write) {
  EXPECT_THROW(write_snapshot({}, folder_), std::invalid_argument);
  EXPECT_THAT(std::vector<fs::path>(fs::directory_iterator(folder_), {}), IsEmpty());
}

}  // namespace
}  // namespace espalier::inspect
