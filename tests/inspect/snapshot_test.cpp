#include "espalier/inspect/snapshot.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace espalier::inspect {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::vector<block_type> two_types{{"node", false, {}, {}}, {"leaf", false, {}, {}}};

live_block at(std::uint64_t address, std::uint64_t bytes, type_index type = 0) {
  return {.address = address, .bytes = bytes, .type = type};
}

template <class Callable>
std::string refusal(Callable call) {
  try {
    static_cast<void>(call());
  } catch (const std::invalid_argument& wrong) {
    return wrong.what();
  }
  return "no exception";
}

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

}  // namespace
}  // namespace espalier::inspect
