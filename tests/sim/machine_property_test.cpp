// Random accesses: the invariants hold after each, every access is accounted for, and a run can be repeated.

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "sim/machine/presets.hpp"
#include "tests/sim/machine_fixture.hpp"

namespace espalier::sim {
namespace {

struct shape {
  const char* name;
  bool inclusive;
  unsigned cores_per_l2;
  bool prefetch;
  unsigned l1_tree_ways = 1;
};

class machine_property : public ::testing::TestWithParam<shape> {
 protected:
  /// Caches smaller than the lines in use, so that everything is evicted all the time.
  static machine_spec spec() {
    machine_spec m = tiny_spec();
    m.sockets = 3;
    m.cores_per_socket = 4;
    m.threads_per_core = 2;
    m.cores_per_l2 = GetParam().cores_per_l2;
    m.llc_inclusive = GetParam().inclusive;
    m.adjacent_line_prefetch = GetParam().prefetch;
    m.l1 = {2, 2};
    m.l1_tree_ways = GetParam().l1_tree_ways;
    m.l2 = {2, 3};
    m.llc = {4, 3};
    m.latency.dram_occupancy = 5;
    return m;
  }

  /// Every latency of a random run; `check` is called after each access.
  template <class Check>
  static std::vector<std::uint64_t> run(machine& m, unsigned accesses, unsigned seed, Check check) {
    std::mt19937 random(seed);
    std::vector<std::uint64_t> clocks(m.spec().hardware_threads(), 0);
    std::vector<std::uint64_t> latencies;
    for (unsigned i = 0; i < accesses; ++i) {
      const auto thread = static_cast<unsigned>(random() % clocks.size());
      const std::uint64_t address = random() % (m.address_space_bytes() - 16);
      const auto kind = static_cast<touch>(random() % 3);
      latencies.push_back(m.access(thread, clocks[thread], address, 1 + random() % 16, kind));
      clocks[thread] += latencies.back();
      if (random() % 50 == 0) {
        clocks[thread] += m.fence(thread, clocks[thread]);
      }
      check();
    }
    return latencies;
  }

  static void expect_balanced(const counts& c) {
    EXPECT_EQ(c.accesses, c.reads + c.writes + c.atomics);
    EXPECT_EQ(c.accesses, c.l1_hits + c.l2_hits + c.llc_hits + c.local_transfers + c.remote_transfers +
                              c.local_dram + c.remote_dram);
    EXPECT_LE(c.queue_cycles, c.stall_cycles + c.writes * 100'000);
    EXPECT_LE(c.stall_cycles, c.cycles);
    EXPECT_LE(c.page_walks, c.tlb_misses);
  }
};

TEST_P(machine_property, invariants_hold_after_each_access) {
  machine m(spec(), 48 * line_bytes);
  run(m, 6000, 1, [&] { ASSERT_NO_THROW(m.check_invariants()); });
  const counts c = m.total();
  expect_balanced(c);
  // The run reached what it is there for.
  for (const counts_field& field : counts_fields) {
    const bool inclusive_only = field.name == "back_invalidations";
    const bool prefetch_only = field.name == "prefetches";
    if ((inclusive_only && !GetParam().inclusive) || (prefetch_only && !GetParam().prefetch)) {
      EXPECT_EQ(c.*field.value, 0u) << field.name;
    } else {
      EXPECT_GT(c.*field.value, 0u) << field.name;
    }
  }
}

TEST_P(machine_property, a_run_can_be_repeated) {
  machine a(spec(), 48 * line_bytes);
  machine b(spec(), 48 * line_bytes);
  const auto nothing = [] {};
  EXPECT_EQ(run(a, 5000, 2, nothing), run(b, 5000, 2, nothing));
  for (unsigned thread = 0; thread < a.spec().hardware_threads(); ++thread) {
    EXPECT_EQ(a.of(thread), b.of(thread));
  }
}

TEST_P(machine_property, resetting_counts_changes_nothing_else) {
  machine a(spec(), 48 * line_bytes);
  machine b(spec(), 48 * line_bytes);
  const auto nothing = [] {};
  run(a, 1000, 3, nothing);
  run(b, 1000, 3, nothing);
  const counts before = a.total();
  b.reset_counts();
  EXPECT_EQ(b.total(), counts{});
  EXPECT_EQ(run(a, 1000, 4, nothing), run(b, 1000, 4, nothing));
  EXPECT_EQ(a.total() - before, b.total());
}

INSTANTIATE_TEST_SUITE_P(shapes, machine_property,
                         ::testing::Values(shape{"inclusive", true, 1, false},
                                           shape{"inclusive_modules", true, 2, true},
                                           shape{"inclusive_prefetch", true, 1, true},
                                           shape{"not_inclusive", false, 1, true},
                                           shape{"inclusive_trees", true, 1, true, 2},
                                           shape{"modules_in_trees", false, 2, true, 2},
                                           shape{"not_inclusive_modules", false, 2, false}),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(machine_property_presets, invariants_hold_at_the_end) {
  for (const machine_spec& spec : presets()) {
    SCOPED_TRACE(spec.name);
    machine m(spec, 4 << 20);
    std::mt19937 random(5);
    std::vector<std::uint64_t> clocks(spec.hardware_threads(), 0);
    for (int i = 0; i < 60'000; ++i) {
      const auto thread = static_cast<unsigned>(random() % clocks.size());
      const auto kind = random() % 8 == 0 ? touch::atomic : touch::read;
      clocks[thread] += m.access(thread, clocks[thread], random() % (2 << 20), 8, kind);
    }
    EXPECT_NO_THROW(m.check_invariants());
    EXPECT_GE(m.total().accesses, 60'000u);
  }
}

}  // namespace
}  // namespace espalier::sim
