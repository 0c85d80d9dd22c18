// Which level serves an access, which pages it needs, and how long it takes.

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "tests/sim/machine_fixture.hpp"

namespace espalier::sim {
namespace {

class machine_levels : public ::testing::Test {
 protected:
  void SetUp() override { p.place(0); }

  /// Reads `lines` lines `stride` apart, twice; returns the counts of the second round.
  counts second_round(std::uint64_t lines, std::uint64_t stride = 1) {
    counts before;
    for (int round = 0; round < 2; ++round) {
      before = p.m.total();
      for (std::uint64_t i = 0; i < lines; ++i) {
        p.read(0, i * stride);
      }
    }
    p.m.check_invariants();
    return p.m.total() - before;
  }

  paced_machine p{tiny_spec()};
};

TEST_F(machine_levels, first_round_comes_from_memory) {
  for (std::uint64_t line = 0; line < 8; ++line) {
    EXPECT_EQ(p.read(0, line), 180u);
  }
  const counts c = p.m.of(0);
  EXPECT_EQ(c.local_dram, 8u);
  EXPECT_EQ(c.reads, 8u);
  EXPECT_EQ(c.accesses, 8u);
  EXPECT_EQ(c.cycles, 8u * 180);
  EXPECT_EQ(c.stall_cycles, 8u * 176);
}

TEST_F(machine_levels, working_set_of_the_l1_hits_it) {
  const counts c = second_round(8);
  EXPECT_EQ(c.l1_hits, 8u);
  EXPECT_EQ(c.cycles, 8u * 4);
  EXPECT_EQ(c.stall_cycles, 0u);
}

TEST_F(machine_levels, twice_the_l1_never_hits_it) {
  const counts c = second_round(16);
  EXPECT_EQ(c.l1_hits, 0u);
  EXPECT_EQ(c.l2_hits, 16u);
  EXPECT_EQ(c.cycles, 16u * 10);
}

TEST_F(machine_levels, twice_the_l2_never_hits_it) {
  const counts c = second_round(64);
  EXPECT_EQ(c.l1_hits + c.l2_hits, 0u);
  EXPECT_EQ(c.llc_hits, 64u);
  EXPECT_EQ(c.cycles, 64u * 40);
}

TEST_F(machine_levels, twice_the_last_level_never_hits_it) {
  const counts c = second_round(256);
  EXPECT_EQ(c.local_dram, 256u);
  EXPECT_EQ(c.writebacks, 0u);
}

TEST_F(machine_levels, one_line_too_many_in_a_set_misses_always) {
  EXPECT_EQ(second_round(2, 4).l1_hits, 2u);
  EXPECT_EQ(second_round(3, 4).l1_hits, 0u);
  EXPECT_EQ(second_round(4, 8).l2_hits, 4u);
  EXPECT_EQ(second_round(5, 8).llc_hits, 5u);
  EXPECT_EQ(second_round(8, 16).llc_hits, 8u);
  EXPECT_EQ(second_round(9, 16).local_dram, 9u);
}

TEST_F(machine_levels, two_lines_are_two_accesses) {
  EXPECT_EQ(p.m.access(0, 0, 60, 8, touch::read), 2u * 180);
  EXPECT_EQ(p.m.access(0, 1000, 0, 128, touch::read), 2u * 4);
  EXPECT_EQ(p.m.access(0, 2000, 63, 1, touch::read), 4u);
  EXPECT_EQ(p.m.access(0, 2000, 63, 0, touch::read), 0u);
  EXPECT_EQ(p.m.of(0).accesses, 5u);
  EXPECT_EQ(p.m.of(0).l1_hits, 3u);
}

TEST_F(machine_levels, stays_in_the_address_space) {
  EXPECT_NO_THROW(p.m.access(0, 0, tiny_bytes - 8, 8, touch::read));
  try {
    p.m.access(0, 0, tiny_bytes - 7, 8, touch::read);
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_EQ(std::string(error.what()),
              "machine: 8 bytes at address 65529 leave the address space of 65536 bytes");
  }
  EXPECT_THROW(p.m.access(0, 0, ~std::uint64_t{0}, 8, touch::read), std::invalid_argument);
  EXPECT_THROW(machine(tiny_spec(), 0), std::invalid_argument);
  EXPECT_THROW(machine(tiny_spec(), std::uint64_t{128} << 30), std::invalid_argument);
}

TEST_F(machine_levels, modified_lines_are_written_back_once) {
  for (std::uint64_t line = 0; line < 256; ++line) {
    p.write(0, line);
  }
  EXPECT_EQ(p.m.of(0).writebacks, 128u);
  for (std::uint64_t line = 0; line < 256; ++line) {
    p.read(0, line);
  }
  EXPECT_EQ(p.m.of(0).writebacks, 256u);
  for (std::uint64_t line = 0; line < 256; ++line) {
    p.read(0, line);
  }
  EXPECT_EQ(p.m.of(0).writebacks, 256u);
  p.m.check_invariants();
}

TEST_F(machine_levels, a_hit_in_the_last_level_is_a_use) {
  p.read(0, 0);
  for (std::uint64_t i = 1; i <= 7; ++i) {
    p.read(1, i * 16);
  }
  for (std::uint64_t i = 1; i <= 4; ++i) {
    p.read(0, i * 8 + 4);  // other lines of the L1 set, not of the last level's
  }
  EXPECT_EQ(p.read(2, 0), 150u);
  EXPECT_EQ(p.read(1, 0), 40u);
  p.read(1, 8 * 16);
  EXPECT_TRUE(p.m.llc_holds(0, 0));
  EXPECT_FALSE(p.m.llc_holds(0, 16 * line_bytes));
}

TEST_F(machine_levels, a_modified_line_that_leaves_the_l1_goes_to_the_l2) {
  p.write(0, 0);
  // The L2 loses the line, as hits in the L1 do not use it there.
  for (std::uint64_t i = 1; i <= 4; ++i) {
    p.read(0, i * 8);
    p.read(0, 0);
  }
  ASSERT_TRUE(p.m.l1_holds(0, 0));
  ASSERT_FALSE(p.m.l2_holds(0, 0));
  p.read(0, 4);
  p.read(0, 12);
  EXPECT_FALSE(p.m.l1_holds(0, 0));
  EXPECT_TRUE(p.m.l2_holds(0, 0));
  EXPECT_EQ(p.m.of(0).writebacks, 0u);
  EXPECT_EQ(p.read(0, 0), 10u);
}

TEST_F(machine_levels, an_unmodified_line_that_leaves_the_l1_is_dropped) {
  p.read(0, 0);
  for (std::uint64_t i = 1; i <= 4; ++i) {
    p.read(0, i * 8);
    p.read(0, 0);
  }
  p.read(0, 4);
  p.read(0, 12);
  EXPECT_FALSE(p.m.l2_holds(0, 0));
  EXPECT_EQ(p.read(0, 0), 40u);
}

TEST_F(machine_levels, an_inclusive_last_level_takes_lines_from_the_l1) {
  p.read(0, 0);
  for (std::uint64_t i = 1; i <= 8; ++i) {
    EXPECT_EQ(p.read(0, 0), 4u);
    p.read(1, i * 16);
  }
  EXPECT_FALSE(p.m.l1_holds(0, 0));
  EXPECT_FALSE(p.m.llc_holds(0, 0));
  EXPECT_EQ(p.m.of(1).back_invalidations, 1u);
  EXPECT_EQ(p.read(0, 0), 180u);
  p.m.check_invariants();
}

TEST_F(machine_levels, a_modified_line_taken_back_is_written_to_memory) {
  p.write(0, 0);
  for (std::uint64_t i = 1; i <= 8; ++i) {
    p.read(1, i * 16);
  }
  EXPECT_EQ(p.m.of(1).back_invalidations, 1u);
  EXPECT_EQ(p.m.of(1).writebacks, 1u);
}

// Written lines that an L1 could not keep.

using displaced_lines = std::vector<displaced_line>;

displaced_lines displaced(const machine& m) { return {m.displaced().begin(), m.displaced().end()}; }

TEST_F(machine_levels, a_written_line_that_others_push_out_of_the_l1_is_told) {
  p.write(1, 0);
  p.read(1, 4);
  EXPECT_EQ(displaced(p.m), displaced_lines{});
  p.read(1, 8);
  EXPECT_EQ(displaced(p.m), (displaced_lines{{1, 0}}));
  p.read(1, 12);
  EXPECT_EQ(displaced(p.m), displaced_lines{}) << "4 was only read, and 0 is told once";
}

TEST_F(machine_levels, a_written_line_in_use_stays) {
  p.write(0, 0);
  for (std::uint64_t i = 1; i <= 10; ++i) {
    p.read(0, i * 4);
    EXPECT_EQ(displaced(p.m), displaced_lines{});
    p.read(0, 0);
  }
  p.read(0, 44);
  p.read(0, 48);
  EXPECT_EQ(displaced(p.m), (displaced_lines{{0, 0}}));
}

TEST_F(machine_levels, one_access_may_displace_two) {
  for (const std::uint64_t line : {0U, 1U}) {
    p.write(0, line);
    p.read(0, line + 4);
  }
  p.m.access(0, 1'000'000, 8 * line_bytes, 2 * line_bytes, touch::write);
  EXPECT_EQ(displaced(p.m), (displaced_lines{{0, 0}, {0, 1}}));
}

TEST_F(machine_levels, a_line_that_another_core_takes_is_not_displaced) {
  p.write(0, 0);
  p.read(1, 0);
  EXPECT_EQ(displaced(p.m), displaced_lines{});
  p.write(0, 0);
  p.write(1, 0);
  EXPECT_EQ(displaced(p.m), displaced_lines{});
  // Read by both, it is nobody's written line any more.
  p.read(0, 0);
  p.read(1, 4);
  p.read(1, 8);
  EXPECT_FALSE(p.m.l1_holds(1, 0));
  EXPECT_EQ(displaced(p.m), displaced_lines{});
}

TEST_F(machine_levels, a_written_line_that_an_inclusive_last_level_takes_back_is_told) {
  p.write(0, 0);
  for (std::uint64_t i = 1; i <= 7; ++i) {
    p.read(0, 0);
    p.read(1, i * 16);
    EXPECT_EQ(displaced(p.m), displaced_lines{});
  }
  p.read(1, 8 * 16);
  EXPECT_FALSE(p.m.l1_holds(0, 0));
  EXPECT_EQ(displaced(p.m), (displaced_lines{{0, 0}}));
}

TEST_F(machine_levels, a_line_read_that_an_inclusive_last_level_takes_back_is_not) {
  p.read(0, 0);
  for (std::uint64_t i = 1; i <= 8; ++i) {
    p.read(0, 0);
    p.read(1, i * 16);
    EXPECT_EQ(displaced(p.m), displaced_lines{});
  }
  EXPECT_FALSE(p.m.l1_holds(0, 0));
}

TEST(machine_levels_not_inclusive, the_last_level_holds_what_the_private_caches_evict) {
  machine_spec spec = tiny_spec();
  spec.llc_inclusive = false;
  paced_machine p(spec);
  p.place(0);
  for (std::uint64_t line = 0; line < 32; ++line) {
    p.read(0, line);
  }
  EXPECT_FALSE(p.m.llc_holds(0, 0));
  p.read(0, 32);
  EXPECT_EQ(p.m.of(0).local_dram, 33u);
  EXPECT_FALSE(p.m.l2_holds(0, 0));
  EXPECT_TRUE(p.m.llc_holds(0, 0));
  EXPECT_EQ(p.read(0, 0), 40u);
  EXPECT_TRUE(p.m.llc_holds(0, 0));
  p.m.check_invariants();
}

TEST(machine_levels_not_inclusive, the_last_level_takes_nothing_from_the_l1) {
  machine_spec spec = tiny_spec();
  spec.llc_inclusive = false;
  paced_machine p(spec);
  p.place(0);
  p.read(0, 0);
  for (std::uint64_t line = 1; line < 256; ++line) {
    p.read(1, line);
  }
  EXPECT_EQ(p.read(0, 0), 4u);
  EXPECT_EQ(p.m.total().back_invalidations, 0u);
}

TEST(machine_levels_prefetch, brings_the_other_line_of_the_pair) {
  machine_spec spec = tiny_spec();
  spec.adjacent_line_prefetch = true;
  paced_machine p(spec);
  p.place(0);
  EXPECT_EQ(p.read(0, 5), 180u);
  EXPECT_TRUE(p.m.l2_holds(0, 4 * line_bytes));
  EXPECT_FALSE(p.m.l1_holds(0, 4 * line_bytes));
  EXPECT_FALSE(p.m.l2_holds(0, 6 * line_bytes));
  EXPECT_EQ(p.read(0, 4), 10u);
  const counts c = p.m.of(0);
  EXPECT_EQ(c.prefetches, 1u);
  EXPECT_EQ(c.accesses, 2u);
  EXPECT_EQ(c.local_dram, 1u);
  EXPECT_EQ(c.l2_hits, 1u);
  // The pair is there: no further prefetch.
  p.read(0, 5);
  EXPECT_EQ(p.m.of(0).prefetches, 1u);
  p.m.check_invariants();
}

TEST(machine_levels_prefetch, leaves_a_line_that_another_core_has_modified) {
  machine_spec spec = tiny_spec();
  spec.adjacent_line_prefetch = true;
  paced_machine p(spec);
  p.place(0);
  p.write(1, 4);
  EXPECT_EQ(p.m.of(1).prefetches, 1u);
  p.write(1, 5);
  p.read(0, 4);
  EXPECT_EQ(p.m.of(0).prefetches, 0u);
  EXPECT_FALSE(p.m.l2_holds(0, 5 * line_bytes));
  EXPECT_EQ(p.write(1, 5), 1u);
  EXPECT_EQ(p.m.of(1).upgrades, 0u);
}

// Where pages lie, and what the TLBs reach.

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

// Queues, store buffers, fences and hardware threads that share a core.

TEST(machine_timing, requests_for_one_line_queue) {
  machine m(tiny_spec(), tiny_bytes);
  m.set_page(0, tiny_bytes, {.huge = false, .numa_node = 0});
  m.access(0, 0, 0, 8, touch::atomic);
  // At one moment: 176 from core 0, then in turn behind it.
  EXPECT_EQ(m.access(2, 1000, 0, 8, touch::atomic), 20u + 196);
  EXPECT_EQ(m.access(0, 1000, 0, 8, touch::atomic), 20u + 2 * 196);
  EXPECT_EQ(m.access(3, 1000, 0, 8, touch::atomic), 20u + 3 * 196);
  EXPECT_EQ(m.of(3).queue_cycles, 2u * 196);
  EXPECT_EQ(m.of(3).stall_cycles, 3u * 196);
  // Another line has no queue.
  EXPECT_EQ(m.access(0, 1000, 64, 8, touch::read), 180u);
}

TEST(machine_timing, a_line_on_its_way_is_waited_for) {
  machine m(tiny_spec(), tiny_bytes);
  m.access(0, 0, 0, 8, touch::read);
  EXPECT_EQ(m.access(1, 100, 0, 8, touch::read), 76u + 60);
  // Asking the owner keeps the line busy.
  EXPECT_EQ(m.access(0, 1000, 0, 8, touch::read), 4u);
  m.access(0, 2000, 64, 8, touch::read);
  EXPECT_EQ(m.access(1, 3000, 64, 8, touch::read), 60u);
  EXPECT_EQ(m.access(2, 3000, 64, 8, touch::read), 56u + 150);
  // A second hit in the last level waits, and keeps nobody waiting.
  machine shared(tiny_spec(), tiny_bytes);
  shared.access(0, 0, 0, 8, touch::read);
  shared.access(2, 1000, 0, 8, touch::read);
  shared.access(1, 2000, 0, 8, touch::read);
  EXPECT_EQ(shared.access(3, 2000, 0, 8, touch::read), 40u);
}

TEST(machine_timing, memory_channels_queue) {
  machine_spec spec = tiny_spec();
  spec.latency.dram_occupancy = 50;
  machine m(spec, tiny_bytes);
  m.set_page(0, 8192, {.huge = false, .numa_node = 0});
  m.set_page(8192, 4096, {.huge = false, .numa_node = 1});
  EXPECT_EQ(m.access(0, 0, 0, 8, touch::read), 180u);
  EXPECT_EQ(m.access(1, 0, 4096, 8, touch::read), 50u + 180);
  EXPECT_EQ(m.access(2, 30, 64, 8, touch::read), 70u + 300);
  EXPECT_EQ(m.access(3, 0, 8192, 8, touch::read), 180u);
  EXPECT_EQ(m.access(0, 1000, 128, 8, touch::read), 180u);
  EXPECT_EQ(m.of(1).queue_cycles, 50u);
}

TEST(machine_timing, prefetches_use_the_channel) {
  machine_spec spec = tiny_spec();
  spec.latency.dram_occupancy = 50;
  spec.adjacent_line_prefetch = true;
  machine m(spec, tiny_bytes);
  m.access(0, 0, 0, 8, touch::read);
  EXPECT_EQ(m.access(0, 0, 128, 8, touch::read), 100u + 180);
}

TEST(machine_timing, stores_are_buffered_until_the_buffer_is_full) {
  machine m(tiny_spec(), tiny_bytes);
  // Four places; each line is there 176 cycles after its store.
  for (std::uint64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(m.access(0, i, i * 64, 8, touch::write), 1u);
  }
  EXPECT_EQ(m.access(0, 4, 256, 8, touch::write), 1u + 172);
  EXPECT_EQ(m.of(0).stall_cycles, 172u);
  EXPECT_EQ(m.of(0).writes, 5u);
}

TEST(machine_timing, a_buffered_store_keeps_its_order) {
  machine m(tiny_spec(), tiny_bytes);
  m.access(0, 0, 0, 8, touch::write);
  EXPECT_EQ(m.access(0, 1, 0, 8, touch::write), 1u);
  // The second store hits, and still is visible only after the first, at 177.
  EXPECT_EQ(m.fence(0, 10), 167u + 30);
  EXPECT_EQ(m.fence(0, 1000), 30u);
  EXPECT_EQ(m.of(0).fences, 2u);
}

TEST(machine_timing, an_atomic_drains_the_buffer) {
  machine m(tiny_spec(), tiny_bytes);
  m.access(0, 0, 64, 8, touch::atomic);
  EXPECT_EQ(m.access(0, 1000, 64, 8, touch::atomic), 20u);
  m.access(0, 2000, 0, 8, touch::write);
  EXPECT_EQ(m.access(0, 2001, 64, 8, touch::atomic), 20u + 175);
  EXPECT_EQ(m.of(0).atomics, 3u);
}

TEST(machine_timing, a_read_does_not_wait_for_stores) {
  machine m(tiny_spec(), tiny_bytes);
  m.access(0, 0, 0, 8, touch::write);
  EXPECT_EQ(m.access(0, 1, 0, 8, touch::read), 4u);
  EXPECT_EQ(m.access(0, 2, 4, 4, touch::read), 4u);
}

// The line of a store is there 176 cycles after it.
TEST(machine_timing, a_read_waits_for_the_line_that_a_store_has_asked_for) {
  machine m(tiny_spec(), tiny_bytes);
  m.access(0, 0, 0, 8, touch::write);
  EXPECT_EQ(m.access(0, 1, 8, 8, touch::read), 4u + 175);
  EXPECT_EQ(m.access(0, 100, 4, 8, touch::read), 4u + 76);  // partly stored
  EXPECT_EQ(m.access(0, 175, 63, 1, touch::read), 4u + 1);
  EXPECT_EQ(m.access(0, 176, 8, 8, touch::read), 4u);
  EXPECT_EQ(m.of(0).l1_hits, 4u);
  EXPECT_EQ(m.of(0).stall_cycles, 175u + 76 + 1);
}

TEST(machine_timing, a_read_of_what_several_stores_have_written_does_not_wait) {
  machine m(tiny_spec(), tiny_bytes);
  m.access(0, 0, 0, 8, touch::write);
  m.access(0, 1, 8, 8, touch::write);
  EXPECT_EQ(m.access(0, 2, 0, 16, touch::read), 4u);
  EXPECT_EQ(m.access(0, 2, 0, 17, touch::read), 4u + 174);
  // Of another core's stores it knows nothing.
  EXPECT_EQ(m.of(1).accesses, 0u);
}

TEST(machine_timing, a_read_of_a_line_that_is_there_does_not_wait_for_a_store_that_makes_it_writable) {
  machine m(tiny_spec(), tiny_bytes);
  m.access(0, 0, 0, 8, touch::read);
  m.access(1, 1000, 0, 8, touch::read);
  EXPECT_EQ(m.access(0, 2000, 0, 8, touch::write), 1u);
  EXPECT_EQ(m.access(0, 2001, 8, 8, touch::read), 4u);
}

TEST(machine_timing, threads_that_share_a_core_slow_each_other) {
  machine_spec spec = tiny_spec();
  spec.threads_per_core = 2;
  machine m(spec, tiny_bytes);
  m.access(0, 0, 0, 8, touch::read);
  m.set_running(0, true);
  m.set_running(0, true);
  EXPECT_EQ(m.access(0, 1000, 0, 8, touch::read), 4u);
  EXPECT_EQ(m.work(0, 100), 100u);
  m.set_running(1, true);
  EXPECT_EQ(m.access(0, 2000, 0, 8, touch::read), 6u);
  EXPECT_EQ(m.work(0, 100), 150u);
  EXPECT_EQ(m.work(2, 100), 100u);
  EXPECT_EQ(m.fence(0, 3000), 45u);
  // What is waited for takes as long as before.
  EXPECT_EQ(m.access(0, 4000, 64, 8, touch::read), 6u + 176);
  m.set_running(1, false);
  EXPECT_EQ(m.access(0, 5000, 0, 8, touch::read), 4u);
}

}  // namespace
}  // namespace espalier::sim
