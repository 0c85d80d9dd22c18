#include "espalier/hw/cache_geometry.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace espalier::hw {
namespace {

/// Independent of the library: the parity of the address under a mask, bit by bit.
unsigned parity(std::uint64_t address, std::uint64_t mask) {
  unsigned ones = 0;
  for (unsigned bit = 0; bit < 64; ++bit) {
    ones += static_cast<unsigned>(address >> bit & mask >> bit & 1);
  }
  return ones % 2;
}

TEST(cache_geometry, uses_the_published_masks) {
  EXPECT_EQ(slice_masks[0], 0x1b5f575440u);
  EXPECT_EQ(slice_masks[1], 0x2eb5faa880u);
  EXPECT_EQ(slice_masks[2], 0x3cccc93100u);
  std::uint64_t address = 1;
  for (int i = 0; i < 1000; ++i) {
    address = address * 6364136223846793005u + 1442695040888963407u;
    const std::uint64_t a = address >> 27;
    const unsigned b0 = parity(a, 0x1b5f575440);
    const unsigned b1 = parity(a, 0x2eb5faa880);
    const unsigned b2 = parity(a, 0x3cccc93100);
    ASSERT_EQ(slice_of(a, 1), 0u);
    ASSERT_EQ(slice_of(a, 2), b0);
    ASSERT_EQ(slice_of(a, 4), b0 + 2 * b1);
    ASSERT_EQ(slice_of(a, 8), b0 + 2 * b1 + 4 * b2);
    ASSERT_EQ(slice_of(a, 12), b0 + 2 * b1 + 4 * (a / 64 % 3));
    ASSERT_EQ(slice_of(a, 10), b0 + 2 * (a / 64 % 5));
    ASSERT_EQ(slice_of(a, 3), a / 64 % 3);
  }
}

TEST(cache_geometry, single_bits) {
  EXPECT_EQ(slice_of(0x40, 8), 1u);
  EXPECT_EQ(slice_of(0x80, 8), 2u);
  EXPECT_EQ(slice_of(0x100, 8), 4u);
  EXPECT_EQ(slice_of(0x3f, 8), 0u);
  EXPECT_EQ(slice_of(std::uint64_t{1} << 36, 8), 5u);
}

TEST(cache_geometry, spreads_consecutive_lines_evenly) {
  for (const unsigned slices : {2u, 4u, 8u, 10u, 12u}) {
    std::vector<unsigned> lines(slices, 0);
    constexpr unsigned total = 1u << 22;
    for (std::uint64_t line = 0; line < total; ++line) {
      ++lines[slice_of(line * 64, slices)];
    }
    for (const unsigned n : lines) {
      EXPECT_NEAR(n, double(total) / slices, 0.02 * total / slices) << slices;
    }
  }
}

/// The share of a cache's sets, in percent, that a million blocks at a stride leave unused.
double unused(const cache_shape& cache, std::uint64_t stride) {
  std::set<std::uint64_t> used;
  for (std::uint64_t i = 0; i < 1'000'000; ++i) used.insert(set_of(cache, i * stride));
  return 100 * (1 - double(used.size()) / double(cache.all_sets()));
}

TEST(cache_geometry, strides_on_the_haswell) {
  const cache_geometry& haswell = cache_geometry_named("haswell");
  EXPECT_NEAR(unused(haswell.llc, 64), 0, 1e-9);
  EXPECT_NEAR(unused(haswell.llc, 128), 50, 1e-9);
  EXPECT_NEAR(unused(haswell.llc, 192), 66.6667, 1e-4);
  EXPECT_NEAR(unused(haswell.l2, 128), 50, 1e-9);
  EXPECT_NEAR(unused(haswell.l2, 192), 0, 1e-9);
}

TEST(cache_geometry, sets_are_numbered_without_gaps) {
  // Neither the sets nor the slices are a power of two.
  const cache_shape cache{96, 4, 3};
  std::set<std::uint64_t> seen;
  for (std::uint64_t line = 0; line < 10'000; ++line) {
    const std::uint64_t set = set_of(cache, line * 64);
    EXPECT_EQ(set, set_of(cache, line * 64 + 63));
    EXPECT_EQ(set % 96, line % 96);
    seen.insert(set);
  }
  // 96 is a multiple of 3: a line's set fixes its slice, and the rest of the sets are not there to be used.
  EXPECT_EQ(seen.size(), 96u);
  EXPECT_LT(*seen.rbegin(), cache.all_sets());
}

TEST(cache_geometry, machines_of_the_papers_have_the_sizes_of_their_data_sheets) {
  const auto kib = [](const cache_shape& c) { return c.bytes() / 1024; };
  EXPECT_EQ(kib(cache_geometry_named("abu_dhabi").l1), 16u);
  EXPECT_EQ(kib(cache_geometry_named("abu_dhabi").l2), 2048u);
  EXPECT_EQ(kib(cache_geometry_named("abu_dhabi").llc), 8192u);
  EXPECT_EQ(kib(cache_geometry_named("haswell").llc), 30u * 1024);
  EXPECT_EQ(kib(cache_geometry_named("e7_4850").llc), 24u * 1024);
  EXPECT_EQ(kib(cache_geometry_named("e5_2650_htm").llc), 25u * 1024);
  EXPECT_EQ(kib(cache_geometry_named("i7_4770").llc), 8u * 1024);
  EXPECT_EQ(kib(cache_geometry_named("emerald_rapids").l1), 48u);
  EXPECT_EQ(kib(cache_geometry_named("emerald_rapids").l2), 2048u);
  EXPECT_EQ(kib(cache_geometry_named("emerald_rapids").llc), 40u * 1024);
  std::set<std::string> names;
  for (const cache_geometry& g : cache_geometries()) {
    EXPECT_TRUE(names.insert(g.name).second) << g.name;
    EXPECT_EQ(cache_geometry_named(g.name), g);
    EXPECT_FALSE(g.description.empty());
  }
}

TEST(cache_geometry, an_unknown_machine_is_told_those_there_are) {
  try {
    static_cast<void>(cache_geometry_named("nehalem"));
    FAIL() << "no exception";
  } catch (const std::invalid_argument& wrong) {
    EXPECT_NE(std::string(wrong.what()).find("nehalem"), std::string::npos) << wrong.what();
    EXPECT_NE(std::string(wrong.what()).find("i7_4770"), std::string::npos) << wrong.what();
  }
}

cache_geometry geometry_of(const char* synthetic) {
  ::setenv("HWLOC_SYNTHETIC", synthetic, 1);
  const topology machine = topology::discover();
  ::unsetenv("HWLOC_SYNTHETIC");
  return cache_geometry_of(machine);
}

TEST(cache_geometry, a_topology_gives_the_sizes_that_it_knows) {
  const cache_geometry g = geometry_of("pack:1 l3:1(size=8388608) l2:2(size=1048576) l1d:1(size=32768) pu:1");
  EXPECT_EQ(g.name, "this");
  EXPECT_EQ(g.l1.bytes(), 32u * 1024);
  EXPECT_EQ(g.l2.bytes(), 1024u * 1024);
  EXPECT_EQ(g.llc.bytes(), 8u * 1024 * 1024);
  EXPECT_EQ(g.llc.slices, 1u);
}

TEST(cache_geometry, what_a_topology_does_not_know_is_called_a_guess) {
  const cache_geometry g = geometry_of("pack:1 l2:2(size=1048576) pu:1");
  EXPECT_EQ(g.l2.bytes(), 1024u * 1024);
  EXPECT_GT(g.llc.lines(), 0u);
  EXPECT_NE(g.description.find("L1, L3, TLBs"), std::string::npos) << g.description;
}

}  // namespace
}  // namespace espalier::hw
