// Analyses of layouts; pages of a heap and the frames behind them.

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
#include "support/temporary_folder.hpp"

namespace espalier::inspect {
namespace {

using namespace ::testing;

const std::vector<block_type> abc{{"a", false, {}, {}}, {"b", false, {}, {}}, {"c", true, {}, {}}};

live_block at(std::uint64_t address, std::uint64_t bytes, type_index type = 0) {
  return {.address = address, .bytes = bytes, .type = type};
}

snapshot of(std::vector<live_block> blocks, std::vector<block_type> types = abc) {
  return make_snapshot("test", std::move(types), std::move(blocks));
}

const hw::cache_geometry& haswell() { return hw::cache_geometry_named("haswell"); }

analysis looked_at(const snapshot& s) { return analyze(s, haswell()); }

proximity company(const analysis& a, type_index type, type_index other) {
  for (const neighbour& n : a.by_type[type].neighbours)
    if (n.other == other) return n.blocks;
  return {};
}

TEST(analysis, of_nothing) {
  const analysis a = looked_at(of({}));
  EXPECT_EQ(a.blocks, 0u);
  ASSERT_EQ(a.by_type.size(), 3u);
  const type_analysis& t = a.by_type[0];
  EXPECT_EQ(t.strides.first_share(), std::nullopt);
  EXPECT_EQ(t.crossing, std::nullopt);
  EXPECT_EQ(t.pages.scatter(), std::nullopt);
  EXPECT_THAT(t.neighbours, IsEmpty());
  EXPECT_EQ(t.cache(cache_level::l1).best().unused, 64u);
  EXPECT_FALSE(t.cache(cache_level::l1).best().could_fill());
}

TEST(analysis, bytes_and_size_classes) {
  std::vector<live_block> blocks{
      {0x1000, 40, 8, 0}, {0x1040, 48, 0, 0}, {0x1080, 100, 28, 0}, {0x2000, 5, 11, 1}};
  const analysis a = looked_at(of(blocks));
  EXPECT_EQ(a.by_type[0].bytes_asked, 188u);
  EXPECT_EQ(a.by_type[0].bytes_held, 224u);
  EXPECT_EQ(a.by_type[1].bytes_held, 16u);
  EXPECT_EQ(a.bytes_held, 240u);
  EXPECT_THAT(a.by_type[0].size_classes.most, ElementsAre(frequency{48, 2}, frequency{128, 1}));
  EXPECT_EQ(a.by_type[0].size_classes.distinct, 2u);
}

TEST(analysis, strides_are_between_blocks_of_the_type) {
  std::vector<live_block> blocks;
  for (std::uint64_t i = 0; i < 10; ++i) {
    blocks.push_back(at(0x1000 + 128 * i, 64, 0));
    blocks.push_back(at(0x1040 + 128 * i, 8, 1));
  }
  blocks.push_back(at(0x10000, 8, 1));
  const analysis a = looked_at(of(blocks));
  EXPECT_THAT(a.by_type[0].strides.most, ElementsAre(frequency{128, 9}));
  EXPECT_THAT(a.by_type[1].strides.most, ElementsAre(frequency{128, 9}, frequency{0x10000 - 0x14c0, 1}));
  EXPECT_DOUBLE_EQ(a.by_type[1].strides.first_share().value(), 0.9);
  EXPECT_THAT(a.by_type[2].strides.most, IsEmpty());
}

TEST(analysis, lists_as_many_values_as_asked_for_and_counts_the_rest) {
  std::vector<live_block> blocks;
  std::uint64_t address = 0;
  for (std::uint64_t i = 0; i < 40; ++i) blocks.push_back(at(address += 16 + 16 * (i % 13), 1));
  analysis_options options;
  options.most_frequent = 2;
  const frequencies strides = analyze(of(blocks), haswell(), options).by_type[0].strides;
  // 39 strides of 13 kinds, each thrice: the least two of the equally frequent.
  EXPECT_THAT(strides.most, ElementsAre(frequency{16, 3}, frequency{32, 3}));
  EXPECT_EQ(strides.distinct, 13u);
  EXPECT_EQ(strides.total, 39u);
}

TEST(analysis, straddling_is_more_lines_than_the_size_must_have) {
  EXPECT_EQ(looked_at(of({at(0x1000, 64), at(0x1040, 65), at(0x10c0, 64)})).by_type[0].straddling, 0u);
  EXPECT_EQ(looked_at(of({at(0x1001, 64)})).by_type[0].straddling, 1u);
  EXPECT_EQ(looked_at(of({at(0x103f, 1), at(0x107f, 2)})).by_type[0].straddling, 1u);
  EXPECT_EQ(looked_at(of({at(0x103f, 66)})).by_type[0].straddling, 1u);
  EXPECT_EQ(looked_at(of({at(0x103e, 66)})).by_type[0].straddling, 0u);
}

TEST(analysis, visits_of_searched_bytes) {
  // Key always, one of two edges 64 bytes behind: always two lines, which no place of the block would change.
  const std::vector<block_type> far{{"far", false, {{0, 8}}, {{64, 8}, {72, 8}}}};
  const type_analysis scattered = looked_at(of({at(0x1000, 96), at(0x1080, 96)}, far)).by_type[0];
  EXPECT_EQ(scattered.crossing, 1.0);
  EXPECT_EQ(scattered.lines_per_visit, 2.0);
  EXPECT_EQ(scattered.searched_straddling, 0u);
  // Only the first half is read of which one block has all in a line.
  const std::vector<block_type> head{{"head", false, {{0, 32}}, {}}};
  const type_analysis t = looked_at(of({at(0x1000, 64), at(0x1070, 64)}, head)).by_type[0];
  EXPECT_EQ(t.crossing, 0.5);
  EXPECT_EQ(t.lines_per_visit, 1.5);
  EXPECT_EQ(t.searched_straddling, 1u);
  EXPECT_EQ(t.straddling, 1u);
  EXPECT_EQ(looked_at(of({at(0x1000, 64)})).by_type[0].searched_straddling, std::nullopt);
}

TEST(analysis, a_block_shorter_than_what_is_searched_is_read_to_its_end) {
  const std::vector<block_type> list{{"list", false, {{0, 8}, {40, 200}}, {}}};
  const type_analysis t = looked_at(of({at(0x1000, 48), at(0x1040, 0), at(0x1080, 240)}, list)).by_type[0];
  EXPECT_EQ(t.lines_per_visit, (1 + 0 + 4) / 3.0);
  EXPECT_EQ(t.cache(cache_level::l1).best().lines, 5u);
}

TEST(analysis, company_of_lines_pairs_and_pages) {
  const analysis a = looked_at(of({
      at(0x1000, 32, 0), at(0x1020, 32, 1),  // one line
      at(0x1080, 64, 0), at(0x10c0, 64, 1),  // one pair
      at(0x1140, 64, 0), at(0x1180, 64, 1),  // neighbouring lines of two pairs
      at(0x5000, 64, 0),                     // alone
  }));
  EXPECT_EQ(company(a, 0, 1), (proximity{1, 2, 3}));
  EXPECT_EQ(company(a, 1, 0), (proximity{1, 2, 3}));
  EXPECT_EQ(company(a, 0, 0), (proximity{0, 0, 3}));
  EXPECT_EQ(a.by_type[0].mixed, (proximity{1, 2, 3}));
  EXPECT_EQ(a.by_type[0].pages.mixed_pages, 1u);
  EXPECT_EQ(a.by_type[0].pages.pages, 2u);
  EXPECT_EQ(a.pages.mixed_pages, 1u);
}

TEST(analysis, a_block_across_lines_has_the_company_of_both_once) {
  // b | aaaa | b: two lines, and b in each.
  const analysis two = looked_at(of({at(0x1000, 8, 1), at(0x1020, 64, 0), at(0x1060, 8, 1)}));
  EXPECT_EQ(company(two, 0, 1).in_line, 1u);
  EXPECT_EQ(company(two, 1, 0).in_line, 2u);
  EXPECT_EQ(company(two, 1, 1).in_line, 0u);
  // A chain: each in the lines of the next.
  const analysis chain = looked_at(of({at(0x1020, 64, 0), at(0x1060, 64, 1), at(0x10a0, 64, 2)}));
  EXPECT_EQ(company(chain, 1, 0).in_line, 1u);
  EXPECT_EQ(company(chain, 1, 2).in_line, 1u);
  EXPECT_EQ(company(chain, 0, 2).in_line, 0u);
  EXPECT_EQ(chain.by_type[1].mixed.in_line, 1u);
  // A large block: only its first and last lines and pages are shared.
  const analysis large =
      looked_at(of({at(0x1000, 32, 1), at(0x1020, 3 * page_bytes, 0), at(0x4020, 8, 1), at(0x9000, 8, 1)}));
  EXPECT_EQ(company(large, 0, 1), (proximity{1, 1, 1}));
  EXPECT_EQ(company(large, 1, 0), (proximity{2, 2, 2}));
  EXPECT_EQ(large.by_type[0].pages.pages, 4u);
  EXPECT_EQ(large.by_type[0].pages.mixed_pages, 2u);
  EXPECT_EQ(large.by_type[0].pages.longest_run, 4u);
}

/// By definition, of all pairs of blocks; without another type, of whatever others there are.
proximity by_definition(const snapshot& s, type_index type, std::optional<type_index> other) {
  proximity p;
  const auto near = [&](const live_block& b, unsigned shift) {
    return std::ranges::any_of(s.blocks, [&](const live_block& c) {
      return (other ? c.type == *other : c.type != type) && c.address != b.address &&
             c.address >> shift <= b.last() >> shift && c.last() >> shift >= b.address >> shift;
    });
  };
  for (const live_block& b : s.blocks) {
    if (b.type != type) continue;
    p.in_line += near(b, 6) ? 1 : 0;
    p.in_pair += near(b, 7) ? 1 : 0;
    p.in_page += near(b, 12) ? 1 : 0;
  }
  return p;
}

snapshot random_layout(unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<live_block> blocks;
  std::uint64_t address = 0x1000;
  for (int i = 0; i < 400; ++i) {
    const std::uint64_t bytes = random() % 20 == 0 ? random() % 9000 : random() % 90;
    blocks.push_back(at(address, bytes, static_cast<type_index>(random() % 3)));
    address += std::max<std::uint64_t>(bytes, 1) + (random() % 2 == 0 ? 0 : random() % 200);
    if (random() % 30 == 0) address += random() % 20000;
  }
  return of(std::move(blocks));
}

TEST(analysis, company_agrees_with_its_definition) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    const snapshot s = random_layout(seed);
    const analysis a = looked_at(s);
    for (type_index type = 0; type < 3; ++type) {
      for (type_index other = 0; other < 3; ++other)
        ASSERT_EQ(company(a, type, other), by_definition(s, type, other)) << seed << ' ' << type << other;
      ASSERT_EQ(a.by_type[type].mixed, by_definition(s, type, std::nullopt)) << seed << ' ' << type;
    }
  }
}

TEST(analysis, pages_agree_with_their_definition) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    const snapshot s = random_layout(seed);
    const analysis a = looked_at(s);
    std::map<std::uint64_t, std::set<type_index>> types_of;
    for (const live_block& b : s.blocks)
      for (std::uint64_t n = b.address / page_bytes; n <= b.last() / page_bytes; ++n)
        types_of[n].insert(b.type);
    for (type_index type = 0; type < 3; ++type) {
      std::uint64_t pages = 0;
      std::uint64_t mixed = 0;
      std::uint64_t runs = 0;
      for (const auto& [number, types] : types_of) {
        if (!types.contains(type)) continue;
        ++pages;
        if (types.size() > 1) ++mixed;
        if (!types_of.contains(number - 1) || !types_of[number - 1].contains(type)) ++runs;
      }
      ASSERT_EQ(a.by_type[type].pages.pages, pages) << seed;
      ASSERT_EQ(a.by_type[type].pages.mixed_pages, mixed) << seed;
      ASSERT_EQ(a.by_type[type].pages.runs, runs) << seed;
    }
    ASSERT_EQ(a.pages.pages, types_of.size());
  }
}

TEST(analysis, children_beside_their_parents) {
  snapshot s = of({
      at(0x1000, 32, 0), at(0x1020, 32, 1),  // in the line
      at(0x1080, 64, 0), at(0x10c0, 64, 1),  // in the pair
      at(0x1140, 64, 0), at(0x1180, 64, 1),  // next line, another pair
      at(0x1200, 64, 0),                     // children in the page, in another, and one of a's own
      at(0x9000, 64, 1), at(0x9040, 64, 2), at(0xa100, 64, 2),
      at(0xa140, 64, 0),  // the line before, in the pair
      at(0xa180, 64, 0),  // the line before, in the pair before
  });
  s.links = {{0, 1}, {2, 3}, {4, 5}, {6, 1}, {6, 7}, {6, 0}, {6, 0}, {10, 9}, {11, 10}};
  s.links_unknown.clear();
  const analysis a = looked_at(s);
  ASSERT_EQ(a.by_type[0].children.size(), 3u);
  const child_use& b = a.by_type[0].children[0];
  EXPECT_EQ(b.child, 1u);
  EXPECT_EQ(b.parents, 4u);
  EXPECT_EQ(b.in_line, 1u);
  EXPECT_EQ(b.in_pair, 1u);
  EXPECT_EQ(b.in_adjacent_line, 2u);
  EXPECT_EQ(b.in_page, 4u);
  // Of its own type: one far away, one in the line before, which is no pair.
  const child_use& own = a.by_type[0].children[1];
  EXPECT_EQ(own.child, 0u);
  EXPECT_EQ(own.parents, 2u);
  EXPECT_EQ(own.in_pair, 0u);
  EXPECT_EQ(own.in_adjacent_line, 1u);
  const child_use& c = a.by_type[0].children[2];
  EXPECT_EQ(c.parents, 1u);
  EXPECT_EQ(c.in_pair, 1u);
  EXPECT_EQ(c.in_adjacent_line, 1u);
  EXPECT_THAT(a.by_type[1].children, IsEmpty());
  EXPECT_EQ(a.links_unknown, "");
}

TEST(analysis, a_line_counts_once_in_its_set) {
  // Two blocks in line 0x40 (set 0), one in 0x41, one in lines 0x80 and 0x81 (sets 0 and 1).
  const analysis a = looked_at(of({at(0x1000, 32), at(0x1020, 32), at(0x1040, 8), at(0x2020, 64)}));
  const set_use& l1 = a.by_type[0].cache(cache_level::l1).best();
  EXPECT_FALSE(l1.physical);
  EXPECT_EQ(l1.sets, 64u);
  EXPECT_EQ(l1.lines, 4u);
  EXPECT_EQ(l1.unused, 62u);
  EXPECT_EQ(l1.most_loaded, 2u);
  EXPECT_EQ(l1.overloaded, 0u);
  ASSERT_EQ(l1.cells.size(), 64u);
  EXPECT_EQ(l1.cells[0], (set_use::cell{2, 0, 2}));
  EXPECT_EQ(l1.cells[1], (set_use::cell{2, 0, 2}));
  EXPECT_EQ(l1.cells[2], (set_use::cell{0, 1, 0}));
}

TEST(analysis, only_searched_lines_count_where_they_are_known) {
  const std::vector<block_type> head{{"head", false, {{64, 8}}, {}}};
  const analysis a = looked_at(of({at(0x1000, 256)}, head));
  EXPECT_EQ(a.by_type[0].cache(cache_level::l1).best().lines, 1u);
  EXPECT_EQ(a.by_type[0].cache(cache_level::l1).best().cells[1].lines, 1u);
}

TEST(analysis, overloaded_is_beyond_the_ways_and_not_by_chance) {
  const auto strided = [](std::uint64_t count, std::uint64_t stride) {
    std::vector<live_block> blocks;
    for (std::uint64_t i = 0; i < count; ++i) blocks.push_back(at(0x100000 + i * stride, 64));
    return looked_at(of(std::move(blocks))).by_type[0].cache(cache_level::l1).best();
  };
  // Blocks a page apart: 8 fit the set, the ninth does not.
  EXPECT_EQ(strided(8, 4096).overloaded, 0u);
  EXPECT_EQ(strided(9, 4096).overloaded, 1u);
  EXPECT_EQ(strided(9, 4096).most_loaded, 9u);
  // Ten in every set are too many, but none more than others.
  EXPECT_EQ(strided(640, 64).overloaded, 0u);
  EXPECT_EQ(strided(640, 64).unused, 0u);
  // One in four more than the others, which chance would not do; but the others are as good as full.
  std::vector<live_block> uneven;
  for (std::uint64_t i = 0; i < 64 * 400; ++i) uneven.push_back(at(i * 64, 64));
  for (std::uint64_t i = 0; i < 100; ++i) uneven.push_back(at(0x1000000 + i * 4096, 64));
  const set_use most = looked_at(of(std::move(uneven))).by_type[0].cache(cache_level::l1).best();
  EXPECT_EQ(most.most_loaded, 500u);
  EXPECT_EQ(most.overloaded, 0u);
  // A half used twice over.
  EXPECT_EQ(strided(32 * 40, 128).overloaded, 32u);
  EXPECT_DOUBLE_EQ(strided(32 * 40, 128).overloaded_share(), 0.5);
  EXPECT_DOUBLE_EQ(strided(32 * 40, 128).unused_share(), 0.5);
  EXPECT_TRUE(strided(128, 64).could_fill());
  EXPECT_FALSE(strided(127, 64).could_fill());
}

TEST(analysis, random_places_overload_nothing) {
  std::mt19937_64 random(1);
  std::set<std::uint64_t> lines;
  while (lines.size() < 4096) lines.insert(random() % (1U << 20));
  std::vector<live_block> blocks;
  for (const std::uint64_t line : lines) blocks.push_back(at(line * 64, 64));
  const analysis a = looked_at(of(std::move(blocks)));
  EXPECT_EQ(a.by_type[0].cache(cache_level::l1).best().overloaded, 0u);
  EXPECT_EQ(a.by_type[0].cache(cache_level::l2).best().overloaded, 0u);
}

TEST(analysis, cells_are_at_most_4096_and_tell_unused_sets) {
  std::vector<live_block> blocks;
  for (std::uint64_t i = 0; i < 50'000; ++i) blocks.push_back(at(i * 128, 64));
  const analysis a = looked_at(of(std::move(blocks)));
  const set_use& llc = a.by_type[0].cache(cache_level::llc).by_virtual;
  EXPECT_EQ(llc.sets_per_cell, 6u);
  EXPECT_EQ(llc.cells.size(), 4096u);
  std::uint64_t lines = 0;
  std::uint64_t unused = 0;
  for (const set_use::cell& c : llc.cells) {
    lines += c.lines;
    unused += c.unused;
    EXPECT_GE(c.unused, 3u);
  }
  EXPECT_EQ(lines, llc.lines);
  EXPECT_EQ(unused, llc.unused);
}

TEST(analysis, cells_are_for_the_largest_types) {
  analysis_options options;
  options.types_with_cells = 1;
  const analysis a =
      analyze(of({at(0x1000, 8, 0), at(0x2000, 64, 1), at(0x3000, 63, 2)}), haswell(), options);
  EXPECT_THAT(a.by_type[0].cache(cache_level::l1).by_virtual.cells, IsEmpty());
  EXPECT_EQ(a.by_type[1].cache(cache_level::l1).by_virtual.cells.size(), 64u);
  EXPECT_THAT(a.by_type[2].cache(cache_level::l1).by_virtual.cells, IsEmpty());
}

TEST(analysis, cells_are_for_the_first_of_equally_large_types) {
  constexpr type_index count = 40;
  std::vector<live_block> blocks;
  blocks.reserve(count);
  for (type_index type = 0; type < count; ++type) blocks.push_back(at(0x1000 * (type + 1), 64, type));
  const analysis a = looked_at(of(std::move(blocks), std::vector<block_type>(count)));
  for (type_index type = 0; type < count; ++type)
    EXPECT_EQ(a.by_type[type].cache(cache_level::l1).by_virtual.cells.empty(), type >= 16) << type;
}

TEST(analysis, physical_sets_where_every_frame_of_the_type_is_known) {
  snapshot s = of({at(0x1000, 64, 0), at(0x2000, 64, 0), at(0x3000, 64, 1)});
  // Both of a's pages in one set of the L2, which their virtual addresses are not.
  s.pages[0].set_frame(0x100);
  s.pages[1].set_frame(0x108);
  const analysis a = looked_at(s);
  EXPECT_EQ(a.by_type[0].cache(cache_level::l2).by_virtual.most_loaded, 1u);
  ASSERT_TRUE(a.by_type[0].cache(cache_level::l2).by_physical);
  EXPECT_EQ(a.by_type[0].cache(cache_level::l2).best().most_loaded, 2u);
  EXPECT_TRUE(a.by_type[0].cache(cache_level::l2).best().physical);
  EXPECT_FALSE(a.by_type[0].cache(cache_level::l1).by_physical);
  EXPECT_FALSE(a.by_type[1].cache(cache_level::l2).by_physical);
  EXPECT_FALSE(a.by_type[1].cache(cache_level::llc).best().physical);
}

TEST(analysis, what_one_type_leaves_behind_does_not_count_for_the_next) {
  snapshot s = of({at(0x1000, 64, 0), at(0x2000, 64, 0), at(0x3000, 64, 1)});
  s.pages[0].set_frame(7);
  s.pages[2].set_frame(0x103);
  const analysis a = looked_at(s);
  EXPECT_FALSE(a.by_type[0].cache(cache_level::l2).by_physical);
  EXPECT_EQ(a.by_type[1].cache(cache_level::l2).best().lines, 1u);
  EXPECT_TRUE(a.by_type[1].cache(cache_level::l2).best().physical);
}

TEST(analysis, small_and_huge_pages) {
  snapshot s = of({at(0x200000, 64, 0), at(0x3ff000, 64, 0), at(0x400000, 64, 0), at(0x401000, 64, 1)});
  EXPECT_EQ(looked_at(s).by_type[0].pages.tlb_entries(), std::nullopt);
  s.pages[0].set_huge(true);
  s.pages[1].set_huge(true);
  s.pages[2].set_huge(false);
  const analysis a = looked_at(s);
  EXPECT_EQ(a.by_type[0].pages.huge, 1u);
  EXPECT_EQ(a.by_type[0].pages.small, 1u);
  EXPECT_EQ(a.by_type[0].pages.tlb_entries(), 2u);
  // Of b, and so of all together, one page is not known.
  EXPECT_EQ(a.by_type[1].pages.huge, std::nullopt);
  EXPECT_EQ(a.pages.small, std::nullopt);
}

TEST(analysis, translations_over_the_entries_for_them) {
  // Two small pages and one huge.
  snapshot s = of({at(0x1000, 8192), at(0x200000, 64), at(0x3ff000, 64)});
  EXPECT_EQ(looked_at(s).by_type[0].pages.tlb_load, std::nullopt);
  for (page& p : s.pages) p.set_huge(p.number >= 0x200);
  hw::cache_geometry g = haswell();
  const auto loads = [&](const hw::tlb_shape& tlb) {
    g.tlb = tlb;
    const page_use p = analyze(s, g).by_type[0].pages;
    return std::pair(p.l1_tlb_load, p.tlb_load);
  };
  using pair = std::pair<std::optional<double>, std::optional<double>>;
  EXPECT_EQ(loads({{1, 16}, {1, 4}, {4, 8}, true}), (pair{0.25, 3.0 / 32}));
  EXPECT_EQ(loads({{1, 4}, {1, 4}, {4, 8}, true}), (pair{0.5, 3.0 / 32}));
  EXPECT_EQ(loads({{1, 16}, {1, 4}, {4, 8}, false}), (pair{0.25, 0.25}));
  EXPECT_EQ(loads({{1, 16}, {1, 4}, {}, true}), (pair{0.25, 0.25}));
  EXPECT_EQ(loads({{1, 16}, {}, {4, 8}, true}), (pair{std::nullopt, 3.0 / 32}));
  EXPECT_EQ(loads({{1, 16}, {}, {4, 8}, false}), (pair{std::nullopt, std::nullopt}));
}

TEST(analysis, runs_of_pages) {
  std::vector<live_block> blocks;
  for (const std::uint64_t number : {1U, 2U, 3U, 10U, 11U, 12U, 20U})
    blocks.push_back(at(number * page_bytes, 4096));
  const page_use p = looked_at(of(std::move(blocks))).by_type[0].pages;
  EXPECT_EQ(p.runs, 3u);
  EXPECT_EQ(p.longest_run, 3u);
  EXPECT_THAT(p.run_lengths.most, ElementsAre(frequency{3, 2}, frequency{1, 1}));
  EXPECT_THAT(p.run_distances.most, ElementsAre(frequency{9, 1}, frequency{10, 1}));
  EXPECT_EQ(p.fewest_pages, 7u);
  EXPECT_EQ(p.scatter(), 1.0);
}

TEST(analysis, false_sharing_is_of_written_types_in_what_is_fetched_together) {
  // c is written: beside a in its line, beside itself in the pair.
  const snapshot s = of({at(0x1000, 32, 2), at(0x1020, 32, 0), at(0x1040, 32, 2), at(0x1100, 64, 2)});
  const analysis pairs = looked_at(s);
  ASSERT_EQ(pairs.shared_falsely.size(), 2u);
  EXPECT_EQ(pairs.shared_falsely[0].written, 2u);
  EXPECT_EQ(pairs.shared_falsely[0].blocks, 2u);
  EXPECT_EQ(pairs.shared_falsely[1].blocks, 2u);
  const analysis lines = analyze(s, hw::cache_geometry_named("abu_dhabi"));
  ASSERT_EQ(lines.shared_falsely.size(), 1u);
  EXPECT_EQ(lines.shared_falsely[0].other, 0u);
  EXPECT_EQ(lines.shared_falsely[0].blocks, 1u);
}

TEST(analysis, hundreds_of_types_and_their_neighbours) {
  std::vector<block_type> types;
  std::vector<live_block> blocks;
  for (type_index t = 0; t < 600; ++t) {
    types.push_back({"site " + std::to_string(t), false, {}, {}});
    blocks.push_back(at(0x10000 + std::uint64_t{t} * 16, 16, t));
  }
  const analysis a = looked_at(of(std::move(blocks), std::move(types)));
  for (type_index t = 0; t < 512; ++t) {
    ASSERT_EQ(a.by_type[t].neighbours.size(), 255u) << t;
    // Three in the line, four more in the pair.
    ASSERT_EQ(
        std::ranges::count_if(a.by_type[t].neighbours, [](const auto& n) { return n.blocks.in_line == 1; }),
        3);
    ASSERT_EQ(
        std::ranges::count_if(a.by_type[t].neighbours, [](const auto& n) { return n.blocks.in_pair == 1; }),
        7);
  }
}

using cell = page_map::cell;
using part = page_map::part;

TEST(page_map, a_cell_for_each_page_with_blocks) {
  constexpr std::uint64_t last = ~std::uint64_t{0} / page_bytes;
  const std::pair<std::vector<live_block>, std::vector<cell>> cases[] = {
      {{}, {}},
      {{at(0x1000, 64, 1), at(0x1040, 65, 0), at(0x1100, 1, 1), at(0x5000, 4096, 2)},
       {{1, 1, 1, 130, 2, {{0, 65}, {1, 65}}}, {5, 1, 0, 4096, 1, {{2, 4096}}}}},
      // In each of its pages; and of no bytes; and in the last page of the address space.
      {{at(0x1ff0, 0x1020, 0), at(0x3010, 8, 1)},
       {{1, 1, 0, 16, 1, {{0, 16}}}, {2, 1, 0, 4096, 1, {{0, 4096}}}, {3, 1, 1, 24, 2, {{0, 16}, {1, 8}}}}},
      {{at(0x1000, 0, 2)}, {{1, 1, 0, 1, 1, {{2, 1}}}}},
      {{at(last * page_bytes, page_bytes, 0)}, {{last, 1, 0, 4096, 1, {{0, 4096}}}}},
  };
  for (const auto& [blocks, cells] : cases) {
    const page_map m = map_pages(of(blocks));
    EXPECT_EQ(m.pages_per_cell, 1u);
    EXPECT_EQ(m.cells, cells);
  }
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
  const page_map m = map_pages(of(std::move(blocks), std::vector<block_type>(10)), {4096, 3});
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

constexpr std::uint64_t present = std::uint64_t{1} << 63U;
constexpr std::uint64_t transparent = std::uint64_t{1} << 22U;
constexpr std::uint64_t hugetlb = std::uint64_t{1} << 17U;

/// The kernel's files, with what the test puts into them. Those not put are not there.
class page_frames : public testing::Test, protected test::temporary_folder {
 protected:
  page_sources sources() const {
    return {at("pagemap").string(), at("kpageflags").string(), at("smaps").string()};
  }

  void put(const char* name, const std::map<std::uint64_t, std::uint64_t>& words) const {
    std::ofstream out(at(name), std::ios::binary);
    for (const auto& [index, word] : words) {
      out.seekp(static_cast<std::streamoff>(index * 8));
      out.write(reinterpret_cast<const char*>(&word), sizeof word);
    }
  }
  void put_mappings(const std::string& text) const { temporary_folder::put("smaps", text); }
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
  fs::remove(at("pagemap"));
  find_frames(s, sources());
  EXPECT_EQ(frames_of(s), (frames{std::nullopt}));
  EXPECT_EQ(sizes_of(s), (sizes{std::nullopt}));
}

TEST_F(page_frames, a_directory_is_no_page_map) {
  fs::create_directories(at("pagemap"));
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
