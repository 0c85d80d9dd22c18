// The machines that there are: those of the papers, and the one that this runs on.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "sim/machine/machine.hpp"
#include "sim/machine/machine_spec.hpp"
#include "sim/machine/presets.hpp"
#include "tests/sim/machine_fixture.hpp"

namespace espalier::sim {
namespace {

TEST(machine_presets, are_listed_in_order) {
  std::vector<std::string> names;
  for (const machine_spec& m : presets()) {
    names.push_back(m.name);
    EXPECT_NO_THROW(validate(m));
    EXPECT_FALSE(m.description.empty());
    EXPECT_EQ(&preset(m.name), &m);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"abu_dhabi", "haswell", "e7_4850", "e5_2650_htm", "i7_4770",
                                             "emerald_rapids"}));
}

TEST(machine_presets, unknown_name) {
  try {
    preset("e7-4850");
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_EQ(
        std::string(error.what()),
        "no simulated machine \"e7-4850\": there are abu_dhabi, haswell, e7_4850, e5_2650_htm, i7_4770, "
        "emerald_rapids");
  }
}

struct totals {
  const char* name;
  unsigned sockets, cores, threads;
  std::uint64_t l1, l2, llc;  // KiB
  bool prefetch, transactions;
};

TEST(machine_presets, totals) {
  constexpr totals expected[] = {
      {"abu_dhabi", 8, 64, 64, 16, 2048, 8 * 1024, false, false},
      {"haswell", 2, 24, 48, 32, 256, 30 * 1024, true, false},
      {"e7_4850", 4, 40, 80, 32, 256, 24 * 1024, true, false},
      {"e5_2650_htm", 2, 20, 20, 32, 256, 25 * 1024, true, true},
      {"i7_4770", 1, 4, 8, 32, 256, 8 * 1024, true, true},
      {"emerald_rapids", 1, 8, 16, 48, 2048, 40 * 1024, true, true},
  };
  for (const totals& t : expected) {
    SCOPED_TRACE(t.name);
    const machine_spec& m = preset(t.name);
    EXPECT_EQ(m.sockets, t.sockets);
    EXPECT_EQ(m.cores(), t.cores);
    EXPECT_EQ(m.hardware_threads(), t.threads);
    EXPECT_EQ(m.l1.bytes(), t.l1 * 1024);
    EXPECT_EQ(m.l2.bytes(), t.l2 * 1024);
    EXPECT_EQ(m.llc.bytes(), t.llc * 1024);
    EXPECT_EQ(m.llc_inclusive, m.name != "abu_dhabi" && m.name != "emerald_rapids");
    EXPECT_EQ(m.adjacent_line_prefetch, t.prefetch);
    ASSERT_EQ(m.transactions.has_value(), t.transactions);
    if (m.transactions) {
      EXPECT_EQ(m.transactions->write_sets, m.l1.sets);
      EXPECT_EQ(m.transactions->write_ways, m.l1.ways);
      // Haswells follow what was read as far as the L3, which includes the other caches.
      EXPECT_EQ(m.transactions->read_set_lines, m.llc_inclusive ? m.llc.lines() : m.l2.lines());
    }
  }
}

TEST(machine_presets, latencies_rise_with_distance) {
  for (const machine_spec& m : presets()) {
    SCOPED_TRACE(m.name);
    const latency_spec& l = m.latency;
    EXPECT_LT(l.l1, l.l2);
    EXPECT_LT(l.l2, l.llc);
    EXPECT_LT(l.llc, l.llc_snoop);
    EXPECT_LE(l.llc_snoop, l.local_transfer);
    EXPECT_LT(l.local_transfer, l.remote_transfer);
    EXPECT_LT(l.llc, l.local_dram);
    EXPECT_LE(l.local_dram, l.remote_dram);
  }
}

TEST(machine_presets, nanoseconds_become_cycles) {
  EXPECT_EQ(preset("haswell").latency.local_dram, 202u);      // 96.4 ns at 2.1 GHz
  EXPECT_EQ(preset("e5_2650_htm").latency.local_dram, 222u);  // at 2.3 GHz
  EXPECT_EQ(preset("e7_4850").latency.remote_dram, 396u);     // 198 ns at 2.0 GHz
  EXPECT_EQ(preset("emerald_rapids").latency.llc, 125u);      // 43 ns at 2.9 GHz
}

// What was measured on such a processor: 768 lines one behind the other, and 12 in one set.
TEST(machine_presets, transactions_of_the_emerald_rapids) {
  const auto& t = preset("emerald_rapids").transactions;
  ASSERT_TRUE(t);
  EXPECT_EQ(t->write_sets * t->write_ways, 768u);
  EXPECT_EQ(t->write_ways, 12u);
  EXPECT_TRUE(t->keeps_written);
  EXPECT_FALSE(preset("i7_4770").transactions->keeps_written) << "not known";
}

// As Abel and Reineke measured the processors, or their kin; without transactions it hardly matters, and order is exact.
TEST(machine_presets, trees_of_the_l1) {
  const auto trees = [](const char* name) { return preset(name).l1_tree_ways; };
  EXPECT_EQ(trees("i7_4770"), 8u);
  EXPECT_EQ(trees("e5_2650_htm"), 8u);
  EXPECT_EQ(trees("emerald_rapids"), 4u);
  for (const char* name : {"abu_dhabi", "haswell", "e7_4850"}) {
    EXPECT_EQ(trees(name), 1u) << name;
  }
}

TEST(machine_presets, can_be_run) {
  for (const machine_spec& spec : presets()) {
    SCOPED_TRACE(spec.name);
    machine m(spec, 1 << 20);
    const unsigned last = spec.hardware_threads() - 1;
    EXPECT_EQ(m.socket_of(last), spec.sockets - 1);
    EXPECT_EQ(m.access(last, 0, 0, 8, touch::read), spec.latency.local_dram + spec.latency.page_walk);
    EXPECT_EQ(m.access(last, 1000, 0, 8, touch::read), spec.latency.l1);
  }
}

TEST(machine_spec_rules, name_the_field) {
  const auto message = [](auto change) {
    machine_spec m = tiny_spec();
    change(m);
    try {
      validate(m);
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(message([](machine_spec&) {}), "accepted");
  EXPECT_EQ(message([](machine_spec& m) { m.sockets = 17; }), "machine \"tiny\": sockets must be 1 to 16");
  EXPECT_EQ(message([](machine_spec& m) { m.cores_per_l2 = 3; }),
            "machine \"tiny\": cores_per_l2 must divide cores_per_socket");
  EXPECT_EQ(message([](machine_spec& m) { m.cores_per_socket = 65; }),
            "machine \"tiny\": there may be at most 128 L2 caches");
  EXPECT_EQ(message([](machine_spec& m) { m.llc.slices = 0; }),
            "machine \"tiny\": l1, l2 and llc need at least one set, way and slice");
  const std::string trees =
      "machine \"tiny\": l1_tree_ways must be a power of 2 that divides the L1's ways, with at most 32 ways "
      "and 8 "
      "trees, or 1";
  for (const unsigned ways : {0U, 3U, 4U}) {
    EXPECT_EQ(message([&](machine_spec& m) { m.l1_tree_ways = ways; }), trees) << ways;
  }
  EXPECT_EQ(message([](machine_spec& m) {
              m.l1 = {4, 20};
              m.l1_tree_ways = 2;
            }),
            trees);
  EXPECT_EQ(message([](machine_spec& m) { m.l1 = {4, 20}; }), "accepted");
  EXPECT_EQ(message([](machine_spec& m) { m.l1_tree_ways = 2; }), "accepted");
  EXPECT_EQ(message([](machine_spec& m) { m.smt_factor = 0.5; }),
            "machine \"tiny\": smt_factor must be at least 1");
  EXPECT_EQ(message([](machine_spec& m) { m.store_buffer = 0; }),
            "machine \"tiny\": store_buffer must be at least 1");
}

TEST(machine_thread_order, takes_every_thread_once) {
  for (const machine_spec& m : presets()) {
    for (const pinning order : {pinning::smt_last, pinning::compact, pinning::scatter}) {
      std::vector<unsigned> threads = thread_order(m, order);
      std::sort(threads.begin(), threads.end());
      std::vector<unsigned> all(m.hardware_threads());
      std::iota(all.begin(), all.end(), 0u);
      EXPECT_EQ(threads, all) << m.name;
    }
  }
}

TEST(machine_thread_order, orders) {
  machine_spec m = tiny_spec();
  m.threads_per_core = 2;
  EXPECT_EQ(thread_order(m), (std::vector<unsigned>{0, 2, 4, 6, 1, 3, 5, 7}));
  EXPECT_EQ(thread_order(m, pinning::compact), (std::vector<unsigned>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(thread_order(m, pinning::scatter), (std::vector<unsigned>{0, 4, 2, 6, 1, 5, 3, 7}));
}

hw::topology synthetic(const char* description) {
  setenv("HWLOC_SYNTHETIC", description, 1);
  hw::topology t = hw::topology::discover();
  unsetenv("HWLOC_SYNTHETIC");
  return t;
}

TEST(machine_this, has_the_topologys_shape) {
  const machine_spec m = this_machine(
      synthetic("package:2 l3:1(size=31457280) core:3 l2:1(size=262144) l1d:1(size=32768) pu:2"));
  EXPECT_EQ(m.name, "this");
  EXPECT_EQ(m.sockets, 2u);
  EXPECT_EQ(m.cores_per_socket, 3u);
  EXPECT_EQ(m.threads_per_core, 2u);
  EXPECT_EQ(m.cores_per_l2, 1u);
  EXPECT_EQ(m.l1.bytes(), 32768u);
  EXPECT_EQ(m.l2.bytes(), 262144u);
  EXPECT_EQ(m.llc.bytes(), 31457280u);
  EXPECT_NE(m.description.find("guesses, not measured"), std::string::npos);
}

TEST(machine_this, each_last_level_cache_is_a_socket) {
  const machine_spec m = this_machine(
      synthetic("package:2 l3:4(size=16777216) l2:2(size=1048576) core:2 l1d:1(size=32768) pu:1"));
  EXPECT_EQ(m.sockets, 8u);
  EXPECT_EQ(m.cores_per_socket, 4u);
  EXPECT_EQ(m.cores_per_l2, 2u);
  EXPECT_EQ(m.hardware_threads(), 32u);
}

TEST(machine_this, caches_that_are_not_told_are_guessed) {
  const machine_spec m = this_machine(synthetic("package:1 core:2 pu:1"));
  EXPECT_EQ(m.sockets, 1u);
  EXPECT_EQ(m.cores_per_socket, 2u);
  EXPECT_GT(m.l1.bytes(), 0u);
  EXPECT_GT(m.llc.bytes(), m.l2.bytes());
}

TEST(machine_this, too_large_a_machine_is_refused) {
  EXPECT_THROW(this_machine(synthetic("package:32 core:2 pu:1")), std::invalid_argument);
}

TEST(machine_this, the_real_one_can_be_run) {
  const machine_spec spec = this_machine(hw::topology::system());
  machine m(spec, 1 << 20);
  EXPECT_EQ(m.access(0, 0, 0, 8, touch::read), spec.latency.local_dram + spec.latency.page_walk);
  EXPECT_EQ(m.access(0, 1000, 0, 8, touch::read), spec.latency.l1);
}

}  // namespace
}  // namespace espalier::sim
