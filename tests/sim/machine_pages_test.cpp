// Where pages lie, and what the TLBs reach.

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "tests/sim/machine_fixture.hpp"

namespace espalier::sim {
namespace {

constexpr std::uint64_t mib = std::uint64_t{1} << 20;

TEST(machine_pages, first_touch_decides_the_home) {
  paced_machine p(tiny_spec());
  EXPECT_EQ(p.m.home_of(0), std::nullopt);
  EXPECT_EQ(p.read(2, 0), 180u);
  EXPECT_EQ(p.m.home_of(0), 1u);
  EXPECT_EQ(p.m.home_of(page_bytes - 1), 1u);
  EXPECT_EQ(p.m.home_of(page_bytes), std::nullopt);
  EXPECT_EQ(p.read(0, 1), 300u);
  EXPECT_EQ(p.m.of(0).remote_dram, 1u);
  EXPECT_EQ(p.m.of(2).local_dram, 1u);
}

TEST(machine_pages, homes_can_be_touched_without_time) {
  paced_machine p(tiny_spec());
  p.m.first_touch(5000, 1);
  p.m.first_touch(5000, 0);
  EXPECT_EQ(p.m.home_of(4096), 1u);
  EXPECT_EQ(p.m.total(), counts{});
  EXPECT_EQ(p.read(0, 64), 300u);
}

TEST(machine_pages, set_page_places_whole_pages_again) {
  paced_machine p(tiny_spec());
  p.m.first_touch(0, 0);
  p.m.set_page(100, page_bytes, {.huge = false, .numa_node = 1});
  EXPECT_EQ(p.m.home_of(0), 1u);
  EXPECT_EQ(p.m.home_of(2 * page_bytes - 1), 1u);
  EXPECT_EQ(p.m.home_of(2 * page_bytes), std::nullopt);
  p.m.set_page(0, 1, {});
  EXPECT_EQ(p.m.home_of(0), std::nullopt);
}

TEST(machine_pages, a_huge_page_has_one_home) {
  paced_machine p(tiny_spec(), 8 * mib);
  p.m.set_page(2 * mib, 4 * mib, {.huge = true, .numa_node = std::nullopt});
  p.read(2, 3 * mib / line_bytes);
  EXPECT_EQ(p.m.home_of(2 * mib), 1u);
  EXPECT_EQ(p.m.home_of(4 * mib - 1), 1u);
  EXPECT_EQ(p.m.home_of(4 * mib), std::nullopt);
  EXPECT_EQ(p.m.home_of(2 * mib - 1), std::nullopt);
}

TEST(machine_pages, bad_ranges_are_named) {
  paced_machine p(tiny_spec(), 8 * mib);
  EXPECT_THROW(p.m.set_page(8 * mib, 1, {}), std::invalid_argument);
  EXPECT_THROW(p.m.set_page(0, ~std::uint64_t{0}, {}), std::invalid_argument);
  EXPECT_THROW(p.m.set_page(mib, 2 * mib, {.huge = true, .numa_node = 0}), std::invalid_argument);
  EXPECT_THROW(p.m.first_touch(8 * mib, 0), std::invalid_argument);
  EXPECT_THROW(p.m.first_touch(0, 2), std::invalid_argument);
  try {
    p.m.set_page(0, 1, {.huge = false, .numa_node = 2});
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_EQ(std::string(error.what()), "machine \"tiny\" has NUMA nodes 0 to 1, not 2");
  }
}

class machine_tlb : public ::testing::Test {
 protected:
  static machine_spec spec() {
    machine_spec s = tiny_spec();
    s.latency.l2_tlb = 7;
    s.latency.page_walk = 25;
    return s;
  }

  /// Reads one line of each of `pages` pages `stride` bytes apart, twice; returns the second round's counts.
  counts second_round(unsigned pages, std::uint64_t stride) {
    counts before;
    for (int round = 0; round < 2; ++round) {
      before = p.m.total();
      for (unsigned i = 0; i < pages; ++i) {
        p.m.access(0, p.now += 10'000, i * stride, 8, touch::read);
      }
    }
    return p.m.total() - before;
  }

  paced_machine p{spec(), 64 * mib};
};

TEST_F(machine_tlb, a_walk_is_added_once) {
  EXPECT_EQ(p.read(0, 0), 180u + 25);
  EXPECT_EQ(p.read(0, 0), 4u);
  EXPECT_EQ(p.read(0, 1), 180u);
  EXPECT_EQ(p.m.of(0).tlb_misses, 1u);
  EXPECT_EQ(p.m.of(0).page_walks, 1u);
  // Each core has its own.
  EXPECT_EQ(p.read(1, 1), 60u + 25);
}

TEST_F(machine_tlb, reach_of_small_pages) {
  EXPECT_EQ(second_round(4, page_bytes).tlb_misses, 0u);
  const counts five = second_round(5, page_bytes);
  EXPECT_EQ(five.tlb_misses, 5u);
  EXPECT_EQ(five.page_walks, 0u);
  EXPECT_EQ(second_round(8, page_bytes).page_walks, 0u);
  EXPECT_EQ(second_round(9, page_bytes).page_walks, 9u);
}

TEST_F(machine_tlb, reach_of_huge_pages) {
  p.m.set_page(0, 64 * mib, {.huge = true, .numa_node = 0});
  // All small pages of two huge ones.
  EXPECT_EQ(second_round(1024, page_bytes).tlb_misses, 0u);
  EXPECT_EQ(second_round(2, 2 * mib).tlb_misses, 0u);
  // The second level of this machine holds no huge pages.
  const counts three = second_round(3, 2 * mib);
  EXPECT_EQ(three.tlb_misses, 3u);
  EXPECT_EQ(three.page_walks, 3u);
}

TEST(machine_tlb_kinds, a_second_level_may_hold_huge_pages) {
  hw::tlb_shape spec = tiny_spec().tlb;
  spec.l2_holds_huge = true;
  tlb t(spec);
  for (std::uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(t.translate(i * huge_page_bytes, true), tlb::outcome::walk);
  }
  EXPECT_EQ(t.translate(0, true), tlb::outcome::l2_hit);
  EXPECT_EQ(t.translate(0, true), tlb::outcome::l1_hit);
  // The small page at the same address is another page.
  EXPECT_EQ(t.translate(0, false), tlb::outcome::walk);
  t.flush();
  EXPECT_EQ(t.translate(0, false), tlb::outcome::walk);
}

TEST(machine_tlb_kinds, without_an_array_for_huge_pages_each_is_walked) {
  hw::tlb_shape spec = tiny_spec().tlb;
  spec.l1_huge = {};
  tlb t(spec);
  EXPECT_EQ(t.translate(0, true), tlb::outcome::walk);
  EXPECT_EQ(t.translate(0, true), tlb::outcome::walk);
}

}  // namespace
}  // namespace espalier::sim
