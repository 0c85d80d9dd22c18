// Which level serves an access, as a function of what was touched before by the same core.

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

}  // namespace
}  // namespace espalier::sim
