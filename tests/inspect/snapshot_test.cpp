// Snapshots: what they are made of, and their files.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "espalier/inspect/snapshot.hpp"
#include "espalier/inspect/snapshot_file.hpp"
#include "espalier/inspect/snapshot_format.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"

namespace espalier::inspect {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::vector<block_type> two_types{{"node", false, {}, {}}, {"leaf", false, {}, {}}};

live_block at(std::uint64_t address, std::uint64_t bytes, type_index type = 0) {
  return {.address = address, .bytes = bytes, .type = type};
}

using test::refusal;

TEST(snapshot, blocks_are_sorted_and_pages_listed) {
  const snapshot s = make_snapshot("test", two_types, {at(0x9000, 64), at(0x1fc0, 65, 1), at(0x1000, 16)});
  EXPECT_THAT(s.blocks, ElementsAre(at(0x1000, 16), at(0x1fc0, 65, 1), at(0x9000, 64)));
  EXPECT_THAT(s.pages, ElementsAre(page{.number = 1}, page{.number = 2}, page{.number = 9}));
  EXPECT_FALSE(s.frames_unknown.empty());
  EXPECT_FALSE(s.huge_unknown.empty());
  EXPECT_FALSE(s.links_unknown.empty());
  EXPECT_NO_THROW(require_valid(s));
}

TEST(snapshot, of_nothing) {
  const snapshot s = make_snapshot("test", {}, {});
  EXPECT_THAT(s.pages, IsEmpty());
  EXPECT_NO_THROW(require_valid(s));
  EXPECT_FALSE(block_index(s.blocks).find(0));
}

TEST(snapshot, a_block_of_no_bytes_occupies_its_address) {
  EXPECT_THAT(make_snapshot("test", two_types, {at(0x2000, 0)}).pages, ElementsAre(page{.number = 2}));
  EXPECT_THAT(refusal([] { return make_snapshot("test", two_types, {at(0x2000, 0), at(0x2000, 8, 1)}); }),
              HasSubstr("overlap"));
  EXPECT_NO_THROW(static_cast<void>(make_snapshot("test", two_types, {at(0x2000, 0), at(0x2001, 8, 1)})));
}

TEST(snapshot, a_large_block_has_all_its_pages) {
  const snapshot s = make_snapshot("test", two_types, {at(0x1ff0, 3 * page_bytes), at(0x4ff0, 16)});
  EXPECT_THAT(s.pages,
              ElementsAre(page{.number = 1}, page{.number = 2}, page{.number = 3}, page{.number = 4}));
}

TEST(snapshot, refuses_what_cannot_be) {
  EXPECT_THAT(refusal([] { return make_snapshot("test", two_types, {at(64, 65), at(128, 1, 1)}); }),
              HasSubstr("0x40 (node) and 0x80 (leaf) overlap"));
  EXPECT_THAT(refusal([] { return make_snapshot("test", two_types, {at(64, 8, 2)}); }),
              HasSubstr("type 2, and there are 2"));
  EXPECT_THAT(refusal([] { return make_snapshot("test", two_types, {at(~std::uint64_t{0} - 8, 16)}); }),
              HasSubstr("beyond the address space"));
  EXPECT_NO_THROW(static_cast<void>(make_snapshot("test", two_types, {at(~std::uint64_t{0} - 15, 16)})));
}

TEST(snapshot, validity_is_that_of_every_part) {
  const snapshot good = make_snapshot("test", two_types, {at(0x1000, 16), at(0x2000, 16)});
  snapshot s = good;
  std::swap(s.blocks[0], s.blocks[1]);
  EXPECT_THAT(refusal([&] { require_valid(s); }), HasSubstr("out of order"));
  s = good;
  s.pages.pop_back();
  EXPECT_THAT(refusal([&] { require_valid(s); }), HasSubstr("page 0x2 has a block in it and is not listed"));
  s = good;
  std::swap(s.pages[0], s.pages[1]);
  EXPECT_THAT(refusal([&] { require_valid(s); }), HasSubstr("page 0x1 is out of order"));
  s = good;
  s.pages[1] = s.pages[0];
  EXPECT_THAT(refusal([&] { require_valid(s); }), HasSubstr("out of order"));
  for (const std::vector<link>& links : {std::vector<link>{{2, 0}}, {{0, 2}}, {{1, 0}, {0, 1}}}) {
    s = good;
    s.links = links;
    EXPECT_THAT(refusal([&] { require_valid(s); }), HasSubstr("pointer"));
  }
}

TEST(snapshot, a_page_knows_what_it_was_told) {
  page p{.number = 7};
  EXPECT_FALSE(p.frame());
  EXPECT_FALSE(p.huge());
  p.set_huge(false);
  EXPECT_EQ(p.huge(), false);
  EXPECT_FALSE(p.frame());
  p.set_frame(0);
  EXPECT_EQ(p.frame(), 0u);
  p.set_frame(page::frame_mask);
  p.set_huge(true);
  EXPECT_EQ(p.frame(), page::frame_mask);
  EXPECT_EQ(p.huge(), true);
}

TEST(snapshot, the_index_finds_every_byte_and_no_other) {
  std::mt19937_64 random(1);
  std::vector<live_block> blocks;
  std::uint64_t address = 0x10000;
  for (int i = 0; i < 2000; ++i) {
    // Small ones, some of no bytes, a few of several pages, gaps of all kinds.
    const std::uint64_t bytes = i % 50 == 0 ? random() % 30000 : random() % 100;
    blocks.push_back(at(address, bytes));
    address += std::max<std::uint64_t>(bytes, 1) + (i % 7 == 0 ? 0 : random() % (i % 90 == 0 ? 100000 : 40));
  }
  const block_index index(blocks);
  for (std::uint32_t i = 0; i < blocks.size(); ++i) {
    const live_block& b = blocks[i];
    for (const std::uint64_t byte : {b.address, b.address + b.bytes / 2, b.last()}) {
      ASSERT_EQ(index.find(std::min(byte, b.last())), i) << byte;
    }
    const std::uint64_t next = i + 1 < blocks.size() ? blocks[i + 1].address : ~std::uint64_t{0};
    if (b.last() + 1 < next) {
      ASSERT_FALSE(index.find(b.last() + 1)) << b.last();
      ASSERT_FALSE(index.find(next - 1)) << next;
    }
  }
  EXPECT_FALSE(index.find(0));
  EXPECT_FALSE(index.find(blocks.front().address - 1));
}

struct tree_node {
  std::uint64_t key;
  std::uintptr_t child[2];
};

live_block block_of(const tree_node& n, type_index type = 0) {
  return at(reinterpret_cast<std::uintptr_t>(&n), sizeof n, type);
}

TEST(snapshot, pointers_are_found_whatever_their_tags) {
  const auto nodes = std::make_unique<std::array<tree_node, 4>>();
  auto& [root, left, right, alone] = *nodes;
  const auto address = [](const tree_node& n) { return reinterpret_cast<std::uintptr_t>(&n); };
  root.child[0] = address(left) | 7;                               // flag, tag, mark
  root.child[1] = address(right) | std::uintptr_t{1} << 63U;       // a bit on top
  left.child[0] = address(right) + offsetof(tree_node, child[1]);  // into the block
  left.child[1] = address(left);                                   // to itself: none
  right.key = address(root) - 8;                                   // before the first
  right.child[0] = address(alone) + sizeof(tree_node);             // behind the last
  alone.key = 1;
  snapshot s =
      make_snapshot("test", two_types, {block_of(root), block_of(left), block_of(right), block_of(alone, 1)});
  find_links(s);
  EXPECT_THAT(s.links, ElementsAre(link{0, 1}, link{0, 2}, link{1, 2}));
  EXPECT_EQ(s.links_unknown, "");
  EXPECT_NO_THROW(require_valid(s));
  find_links(s);
  EXPECT_EQ(s.links.size(), 3u);
}

TEST(snapshot, only_whole_aligned_words_of_a_block_are_read) {
  alignas(8) std::array<unsigned char, 40> bytes{};
  const auto base = reinterpret_cast<std::uintptr_t>(bytes.data());
  const auto put = [&](std::size_t offset) { std::memcpy(bytes.data() + offset, &base, sizeof base); };
  put(8);
  put(24);
  // The first block is the target. The second begins behind its aligned word and ends within the next.
  snapshot s = make_snapshot("test", two_types, {at(base, 8), at(base + 9, 22)});
  find_links(s);
  EXPECT_THAT(s.links, IsEmpty());
  s = make_snapshot("test", two_types, {at(base, 8), at(base + 9, 23)});
  find_links(s);
  EXPECT_THAT(s.links, ElementsAre(link{1, 0}));
  s = make_snapshot("test", two_types, {at(base, 7), at(base + 9, 6)});
  find_links(s);
  EXPECT_THAT(s.links, IsEmpty());
}

namespace fs = std::filesystem;

class snapshot_file : public testing::Test, protected test::temporary_folder {
 protected:
  fs::path file() const { return at("it.snapshot"); }
  std::string content() const { return test::content_of(file()); }

  void put(std::string_view bytes) const {
    // Some file systems write a file to disk at once where it replaces the content of another.
    fs::remove(file());
    std::ofstream(file(), std::ios::binary) << bytes;
  }

  /// Why the file is refused, in one line; "accepted" where it is not.
  std::string refusal() const {
    const std::string why = test::refusal([&] { return read_snapshot(file()); });
    EXPECT_TRUE(why == "accepted" || why.find("it.snapshot") != std::string::npos) << why;
    EXPECT_EQ(why.find('\n'), std::string::npos) << why;
    return why;
  }
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

TEST_F(snapshot_file, reads_what_was_written) {
  write_snapshot(some_snapshot(), file());
  EXPECT_EQ(read_snapshot(file()), some_snapshot());
  EXPECT_THAT(std::vector<fs::path>(fs::directory_iterator(path()), {}), ElementsAre(file()));
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

struct part {
  std::uint32_t tag;
  std::uint32_t flags;
  std::string payload;
};

std::string words(std::initializer_list<std::uint32_t> all) {
  std::string bytes;
  for (const std::uint32_t word : all) bytes.append(reinterpret_cast<const char*>(&word), sizeof word);
  return bytes;
}

/// The header of a file with these entries of sections.
std::string header_of(std::uint32_t version, std::uint32_t sections, std::string_view entries) {
  const std::string head = std::string(format::magic) + words({version, sections});
  format::checksum sum;
  sum.add(head.data(), head.size());
  sum.add(entries.data(), entries.size());
  const std::uint64_t check = sum.sum();
  return head + std::string(reinterpret_cast<const char*>(&check), sizeof check);
}

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
  return header_of(version, static_cast<std::uint32_t>(parts.size()), entries) + entries + payloads;
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
      const format::section_entry e{1000, format::may_be_skipped, offset, bytes, 0};
      const std::string entry(reinterpret_cast<const char*>(&e), sizeof e);
      put(header_of(format::version, 1, entry) + entry + std::string(8, '\0'));
      ASSERT_NE(refusal(), "accepted") << offset << ' ' << bytes;
    }
  }
}

TEST_F(snapshot_file, says_why_it_cannot_read) {
  EXPECT_THROW(static_cast<void>(read_snapshot(file())), std::system_error);
  EXPECT_THAT(test::refusal([&] { return read_snapshot(path()); }), HasSubstr("is no file"));
}

TEST_F(snapshot_file, says_early_that_it_cannot_write) {
  EXPECT_THROW(write_snapshot({}, path()), std::invalid_argument);
  EXPECT_THAT(std::vector<fs::path>(fs::directory_iterator(path()), {}), IsEmpty());
}

}  // namespace
}  // namespace espalier::inspect
