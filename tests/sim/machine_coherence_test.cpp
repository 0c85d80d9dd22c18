// What cores do to each other's lines. Threads 0 and 1 are the cores of socket 0, threads 2 and 3 of socket 1.

#include <gtest/gtest.h>

#include "tests/sim/machine_fixture.hpp"

namespace espalier::sim {
namespace {

class machine_coherence : public ::testing::Test {
 protected:
  void SetUp() override { p.place(0); }
  void TearDown() override { p.m.check_invariants(); }

  const counts& of(unsigned thread) const { return p.m.of(thread); }

  paced_machine p{tiny_spec()};
};

TEST_F(machine_coherence, writing_what_no_other_core_holds_asks_none) {
  p.read(0, 7);
  p.write(0, 7);
  p.write(0, 7);
  EXPECT_EQ(of(0).l1_hits, 2u);
  EXPECT_EQ(of(0).upgrades, 0u);
  EXPECT_EQ(of(0).stall_cycles, 176u);
}

TEST_F(machine_coherence, two_readers_of_a_socket_then_a_writer) {
  EXPECT_EQ(p.read(0, 7), 180u);
  EXPECT_EQ(p.read(1, 7), 60u);
  EXPECT_EQ(of(1).llc_hits, 1u);
  EXPECT_EQ(p.access(0, 7, touch::atomic), 20u + 90);
  EXPECT_EQ(of(0).l1_hits, 1u);
  EXPECT_EQ(of(0).upgrades, 1u);
  EXPECT_EQ(of(0).local_invalidations, 1u);
  EXPECT_EQ(of(0).remote_invalidations, 0u);
  EXPECT_FALSE(p.m.l1_holds(1, 7 * line_bytes));
  EXPECT_EQ(p.read(1, 7), 80u);
  EXPECT_EQ(of(1).local_transfers, 1u);
  EXPECT_EQ(p.m.total().remote_transfers, 0u);
}

TEST_F(machine_coherence, readers_of_two_sockets_then_a_writer) {
  p.read(0, 7);
  EXPECT_EQ(p.read(2, 7), 150u);
  EXPECT_EQ(of(2).remote_transfers, 1u);
  EXPECT_EQ(p.read(3, 7), 40u);
  EXPECT_EQ(of(3).llc_hits, 1u);
  EXPECT_EQ(p.access(0, 7, touch::atomic), 20u + 210);
  EXPECT_EQ(of(0).upgrades, 1u);
  EXPECT_EQ(of(0).local_invalidations, 0u);
  EXPECT_EQ(of(0).remote_invalidations, 1u);
  EXPECT_FALSE(p.m.llc_holds(1, 7 * line_bytes));
  EXPECT_FALSE(p.m.l1_holds(2, 7 * line_bytes));
  EXPECT_FALSE(p.m.l1_holds(3, 7 * line_bytes));
}

TEST_F(machine_coherence, ping_pong_is_one_remote_transfer_a_write) {
  p.write(0, 7);
  p.m.reset_counts();
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(p.access(2, 7, touch::atomic), 20u + 196);
    EXPECT_EQ(p.access(0, 7, touch::atomic), 20u + 196);
  }
  const counts c = p.m.total();
  EXPECT_EQ(c.remote_transfers, 20u);
  EXPECT_EQ(c.local_transfers, 0u);
  EXPECT_EQ(c.remote_invalidations, 0u);
  EXPECT_EQ(c.local_invalidations, 0u);
  EXPECT_EQ(c.upgrades, 0u);
  EXPECT_EQ(c.writebacks, 0u);
}

TEST_F(machine_coherence, ping_pong_in_a_socket_is_local) {
  p.write(0, 7);
  p.m.reset_counts();
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(p.access(1, 7, touch::atomic), 20u + 76);
    EXPECT_EQ(p.access(0, 7, touch::atomic), 20u + 76);
  }
  EXPECT_EQ(p.m.total().local_transfers, 20u);
  EXPECT_EQ(p.m.total().remote_transfers, 0u);
}

TEST_F(machine_coherence, write_miss_on_shared_lines_invalidates_each_core_here_and_each_socket_there) {
  p.read(0, 7);
  p.read(2, 7);
  p.read(3, 7);
  EXPECT_EQ(p.access(1, 7, touch::atomic), 20u + 210);
  EXPECT_EQ(of(1).llc_hits, 1u);
  EXPECT_EQ(of(1).upgrades, 0u);
  EXPECT_EQ(of(1).local_invalidations, 1u);
  EXPECT_EQ(of(1).remote_invalidations, 1u);
}

TEST_F(machine_coherence, modified_line_read_from_elsewhere_is_written_back_and_shared) {
  p.write(0, 7);
  EXPECT_EQ(p.read(2, 7), 200u);
  EXPECT_EQ(of(2).remote_transfers, 1u);
  EXPECT_EQ(of(2).writebacks, 1u);
  EXPECT_TRUE(p.m.l1_holds(0, 7 * line_bytes));
  EXPECT_EQ(p.read(0, 7), 4u);
  EXPECT_EQ(p.access(0, 7, touch::atomic), 20u + 210);
  EXPECT_EQ(of(0).upgrades, 1u);
}

TEST_F(machine_coherence, modified_line_read_in_the_socket_is_dirty_in_the_last_level) {
  p.write(0, 7);
  EXPECT_EQ(p.read(1, 7), 80u);
  EXPECT_EQ(of(1).writebacks, 0u);
  // Memory does not have the contents, so that another socket must take them from this one.
  EXPECT_EQ(p.read(2, 7), 200u);
  EXPECT_EQ(of(2).writebacks, 1u);
  EXPECT_EQ(p.read(3, 7), 40u);
}

TEST_F(machine_coherence, clean_elsewhere_and_at_home_here_comes_from_here) {
  p.read(2, 7);
  EXPECT_EQ(of(2).remote_dram, 1u);
  EXPECT_EQ(p.read(0, 7), 180u);
  EXPECT_EQ(of(0).local_dram, 1u);
}

TEST_F(machine_coherence, clean_at_its_remote_home_comes_from_there) {
  p.read(0, 7);
  EXPECT_EQ(p.read(2, 7), 150u);
  EXPECT_EQ(of(2).remote_transfers, 1u);
  EXPECT_EQ(of(2).remote_dram, 0u);
}

TEST(machine_coherence_third_socket, clean_lines_are_forwarded_only_where_that_is_faster) {
  machine_spec spec = tiny_spec();
  spec.sockets = 3;
  for (const bool forwards : {true, false}) {
    spec.latency.remote_clean = forwards ? 150 : 301;
    paced_machine p(spec);
    p.place(2);
    p.read(0, 7);
    EXPECT_EQ(p.read(2, 7), forwards ? 150u : 300u);
    EXPECT_EQ(p.m.of(2).remote_transfers, forwards ? 1u : 0u);
    EXPECT_EQ(p.m.of(2).remote_dram, forwards ? 0u : 1u);
    // The home's own caches answer in either case.
    p.read(4, 8);
    EXPECT_EQ(p.read(2, 8), forwards ? 150u : 301u);
    EXPECT_EQ(p.m.of(2).remote_transfers, forwards ? 2u : 1u);
  }
}

TEST_F(machine_coherence, a_shared_line_that_others_dropped_is_still_asked_for) {
  p.read(0, 0);
  p.read(1, 0);
  for (std::uint64_t i = 1; i <= 4; ++i) {
    p.read(1, i * 8);
  }
  ASSERT_FALSE(p.m.l1_holds(1, 0));
  ASSERT_FALSE(p.m.l2_holds(1, 0));
  EXPECT_EQ(p.access(0, 0, touch::atomic), 20u + 40);
  EXPECT_EQ(of(0).upgrades, 1u);
  EXPECT_EQ(of(0).local_invalidations, 0u);
}

TEST_F(machine_coherence, a_write_of_a_clean_exclusive_line_elsewhere_moves_it) {
  p.place(1);
  p.read(2, 7);
  EXPECT_EQ(p.access(0, 7, touch::atomic), 20u + 146);
  EXPECT_EQ(of(0).remote_transfers, 1u);
  EXPECT_EQ(of(0).remote_invalidations, 0u);
  EXPECT_FALSE(p.m.l1_holds(2, 7 * line_bytes));
}

TEST_F(machine_coherence, threads_of_a_core_share_its_caches) {
  machine_spec spec = tiny_spec();
  spec.threads_per_core = 2;
  paced_machine smt(spec);
  smt.write(0, 7);
  EXPECT_EQ(smt.write(1, 7), 1u);
  EXPECT_EQ(smt.m.of(1).l1_hits, 1u);
  EXPECT_EQ(smt.m.core_of(1), 0u);
  EXPECT_EQ(smt.m.core_of(2), 1u);
  EXPECT_EQ(smt.m.socket_of(3), 0u);
  EXPECT_EQ(smt.m.socket_of(4), 1u);
}

TEST(machine_coherence_not_inclusive, a_core_serves_what_the_last_level_lacks) {
  machine_spec spec = tiny_spec();
  spec.llc_inclusive = false;
  paced_machine p(spec);
  p.place(0);
  p.read(0, 7);
  EXPECT_EQ(p.read(1, 7), 80u);
  EXPECT_EQ(p.m.of(1).local_transfers, 1u);
  EXPECT_EQ(p.access(1, 7, touch::atomic), 20u + 90);
  EXPECT_EQ(p.m.of(1).local_invalidations, 1u);
  EXPECT_EQ(p.read(0, 7), 80u);
  EXPECT_EQ(p.m.of(0).writebacks, 1u);
  p.m.check_invariants();
}

TEST(machine_coherence_not_inclusive, a_written_line_leaves_the_last_level) {
  machine_spec spec = tiny_spec();
  spec.llc_inclusive = false;
  paced_machine p(spec);
  p.place(0);
  for (std::uint64_t i = 0; i <= 4; ++i) {
    p.read(0, i * 8);
  }
  ASSERT_TRUE(p.m.llc_holds(0, 0));
  EXPECT_EQ(p.read(0, 0), 40u);
  p.write(0, 0);
  EXPECT_FALSE(p.m.llc_holds(0, 0));
  p.m.check_invariants();
}

class machine_module : public ::testing::Test {
 protected:
  static machine_spec spec() {
    machine_spec s = tiny_spec();
    s.cores_per_socket = 4;
    s.cores_per_l2 = 2;
    return s;
  }
  void TearDown() override { p.m.check_invariants(); }
  paced_machine p{spec()};
};

TEST_F(machine_module, cores_of_one_l2_read_each_others_lines_there) {
  p.write(0, 7);
  EXPECT_EQ(p.read(1, 7), 10u);
  EXPECT_EQ(p.m.of(1).l2_hits, 1u);
  EXPECT_EQ(p.m.of(1).local_transfers, 0u);
}

TEST_F(machine_module, a_write_takes_the_line_from_the_other_l1) {
  p.read(0, 7);
  p.read(1, 7);
  p.write(1, 7);
  EXPECT_EQ(p.m.of(1).local_invalidations, 1u);
  EXPECT_EQ(p.m.of(1).upgrades, 0u);
  EXPECT_FALSE(p.m.l1_holds(0, 7 * line_bytes));
  EXPECT_EQ(p.read(0, 7), 10u);
  // Core 0 has seen the line since: core 1 must take it from there again.
  p.write(1, 7);
  EXPECT_EQ(p.m.of(1).local_invalidations, 2u);
}

TEST_F(machine_module, another_l2_of_the_socket_is_another_private_cache) {
  p.write(0, 7);
  EXPECT_EQ(p.read(2, 7), 80u);
  EXPECT_EQ(p.m.of(2).local_transfers, 1u);
}

}  // namespace
}  // namespace espalier::sim
