#include "espalier/inspect/page_map.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "espalier/inspect/analysis.hpp"

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

}  // namespace
}  // namespace espalier::inspect
