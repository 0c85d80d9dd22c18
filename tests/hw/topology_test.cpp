// Which processors and caches there are, and in which order threads are pinned to them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "espalier/hw/affinity.hpp"
#include "espalier/hw/cache_geometry.hpp"
#include "espalier/hw/topology.hpp"
#include "support/refusal.hpp"

namespace espalier::hw {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Sets a variable of the environment for a scope.
class scoped_variable {
 public:
  scoped_variable(std::string name, const std::string& value) : name_(std::move(name)) {
    setenv(name_.c_str(), value.c_str(), 1);
  }
  ~scoped_variable() { unsetenv(name_.c_str()); }
  scoped_variable(const scoped_variable&) = delete;
  scoped_variable& operator=(const scoped_variable&) = delete;

 private:
  std::string name_;
};

topology synthetic(const std::string& description) {
  const scoped_variable variable("HWLOC_SYNTHETIC", description);
  return topology::discover();
}

std::string message_of_discover() {
  return test::refusal<std::runtime_error>([] { return topology::discover(); });
}

TEST(topology, four_packages_with_smt) {
  const auto machine = synthetic("pack:4 [numa] l3:1 core:10 pu:2");
  EXPECT_EQ(machine.summary(), "4 packages, 40 cores, 80 threads, 4 NUMA nodes");
  EXPECT_FALSE(machine.is_this_machine());
  ASSERT_EQ(machine.pus().size(), 80U);
  for (unsigned i = 0; i < 80; ++i) {
    const auto& pu = machine.pus()[i];
    EXPECT_EQ(pu.os_index, i);
    EXPECT_EQ(pu.core, i / 2);
    EXPECT_EQ(pu.package, i / 20);
    EXPECT_EQ(pu.numa_node, i / 20);
    EXPECT_EQ(pu.smt_rank, i % 2);
  }
  ASSERT_EQ(machine.cores().size(), 40U);
  EXPECT_EQ(machine.cores()[11], (topology::core{11, 1, {22, 23}}));
  ASSERT_EQ(machine.packages().size(), 4U);
  EXPECT_EQ(machine.packages()[3].pus.size(), 20U);
  EXPECT_EQ(machine.packages()[3].pus.front(), 60U);
  ASSERT_EQ(machine.numa_nodes().size(), 4U);
  EXPECT_EQ(machine.numa_nodes()[2].os_index, 2U);
  EXPECT_EQ(machine.numa_nodes()[2].pus.size(), 20U);

  ASSERT_EQ(machine.caches().size(), 4U);
  for (const auto& cache : machine.caches()) {
    EXPECT_EQ(cache.level, 3U);
    EXPECT_EQ(cache.type, cache_type::unified);
    EXPECT_EQ(cache.pus.size(), 20U);
  }
}

TEST(topology, operating_system_indices_differ_from_logical_order) {
  const auto machine = synthetic("pack:2 [numa(memory=1GB)] core:2 pu:2(indexes=0,4,1,5,2,6,3,7)");
  std::vector<unsigned> order;
  for (const auto& pu : machine.pus()) order.push_back(pu.os_index);
  EXPECT_EQ(order, (std::vector<unsigned>{0, 4, 1, 5, 2, 6, 3, 7}));
  EXPECT_EQ(machine.pus()[1].core, 0U);
  EXPECT_EQ(machine.pus()[1].smt_rank, 1U);
  EXPECT_EQ(machine.pus()[4].package, 1U);
  EXPECT_EQ(machine.pus()[4].numa_node, 1U);
  EXPECT_EQ(machine.numa_nodes()[0].bytes, 1'000'000'000U);
}

TEST(topology, caches_by_type_and_sharing) {
  const auto machine =
      synthetic("pack:1 l3:1(size=8MB) l2:2(size=256kB) l1d:1(size=32kB) l1i:1(size=64kB) core:1 pu:2");
  ASSERT_EQ(machine.caches().size(), 7U);
  const auto count = [&](unsigned level, cache_type type) {
    return std::ranges::count_if(
        machine.caches(), [&](const topology::cache& c) { return c.level == level && c.type == type; });
  };
  EXPECT_EQ(count(1, cache_type::data), 2);
  EXPECT_EQ(count(1, cache_type::instruction), 2);
  EXPECT_EQ(count(2, cache_type::unified), 2);
  EXPECT_EQ(count(3, cache_type::unified), 1);
  const auto& first_data = machine.caches().front();
  EXPECT_EQ(first_data.type, cache_type::data);
  EXPECT_EQ(first_data.bytes, 32'000U);
  EXPECT_EQ(first_data.pus, (std::vector<unsigned>{0, 1}));
}

TEST(topology, unknown_associativity_is_absent) {
  const auto machine = synthetic("pack:1 l2:1 core:1 pu:1");
  ASSERT_FALSE(machine.caches().empty());
  for (const auto& cache : machine.caches()) EXPECT_EQ(cache.ways, std::nullopt);
}

TEST(topology, machine_without_cores_or_packages) {
  const auto machine = synthetic("pu:3");
  EXPECT_EQ(machine.summary(), "1 package, 3 cores, 3 threads, 1 NUMA node");
  for (const auto& pu : machine.pus()) EXPECT_EQ(pu.smt_rank, 0U);
}

TEST(topology, xml_file_describes_associativity) {
  const std::string path = ::testing::TempDir() + "espalier_topology_" + std::to_string(getpid()) + ".xml";
  std::ofstream(path) << R"(<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
 <object type="Machine" os_index="0" cpuset="0x3" complete_cpuset="0x3" allowed_cpuset="0x3" nodeset="0x1" complete_nodeset="0x1" allowed_nodeset="0x1" gp_index="1">
  <object type="NUMANode" os_index="0" cpuset="0x3" complete_cpuset="0x3" nodeset="0x1" complete_nodeset="0x1" gp_index="2" local_memory="0"/>
  <object type="L2Cache" cpuset="0x3" complete_cpuset="0x3" nodeset="0x1" complete_nodeset="0x1" gp_index="3" cache_size="131072" depth="2" cache_linesize="128" cache_associativity="8" cache_type="0">
   <object type="L1Cache" cpuset="0x3" complete_cpuset="0x3" nodeset="0x1" complete_nodeset="0x1" gp_index="4" cache_size="4096" depth="1" cache_linesize="64" cache_associativity="-1" cache_type="1">
    <object type="Core" os_index="0" cpuset="0x3" complete_cpuset="0x3" nodeset="0x1" complete_nodeset="0x1" gp_index="5">
     <object type="PU" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" gp_index="6"/>
     <object type="PU" os_index="1" cpuset="0x2" complete_cpuset="0x2" nodeset="0x1" complete_nodeset="0x1" gp_index="7"/>
    </object>
   </object>
  </object>
 </object>
</topology>
)";
  const scoped_variable variable("HWLOC_XMLFILE", path);
  const auto machine = topology::discover();
  std::remove(path.c_str());
  EXPECT_FALSE(machine.is_this_machine());
  EXPECT_EQ(machine.numa_nodes().front().bytes, std::nullopt) << "0 bytes means unknown";
  EXPECT_EQ(machine.caches(),
            (std::vector<topology::cache>{{1, cache_type::data, 4096, 64, 64, {0, 1}},
                                          {2, cache_type::unified, 131072, 128, 8, {0, 1}}}));
}

TEST(topology, description_that_hwloc_ignores_is_an_error) {
  {
    const scoped_variable variable("HWLOC_SYNTHETIC", "sockets, many");
    EXPECT_THAT(message_of_discover(), HasSubstr("HWLOC_SYNTHETIC=\"sockets, many\""));
  }
  const scoped_variable variable("HWLOC_XMLFILE", "/nonexistent/machine.xml");
  EXPECT_NE(message_of_discover(), "accepted");
}

TEST(topology, this_machine_is_consistent) {
  const auto machine = topology::discover();
  EXPECT_TRUE(machine.is_this_machine());
  ASSERT_FALSE(machine.pus().empty());
  EXPECT_LE(machine.pus().size(), static_cast<std::size_t>(sysconf(_SC_NPROCESSORS_ONLN)));
  std::size_t pus_in_cores = 0;
  for (const auto& core : machine.cores()) {
    ASSERT_LT(core.package, machine.packages().size());
    pus_in_cores += core.pus.size();
  }
  EXPECT_EQ(pus_in_cores, machine.pus().size());
  for (const auto& cache : machine.caches()) {
    EXPECT_FALSE(cache.pus.empty());
    EXPECT_NE(cache.bytes, 0U);
  }
}

TEST(topology, system_is_one_cached_instance) {
  const auto& first = topology::system();
  const scoped_variable variable("HWLOC_SYNTHETIC", "pack:3 core:1 pu:1");
  EXPECT_EQ(&topology::system(), &first);
  EXPECT_NE(topology::discover(), first);
}

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

// Their sizes are those of the simulated machines (tests/scheduled/machine_test.cpp).
TEST(cache_geometry, machines_of_the_papers_have_names_of_their_own) {
  std::set<std::string> names;
  for (const cache_geometry& g : cache_geometries()) {
    EXPECT_TRUE(names.insert(g.name).second) << g.name;
    EXPECT_EQ(cache_geometry_named(g.name), g);
    EXPECT_FALSE(g.description.empty());
  }
}

TEST(cache_geometry, an_unknown_machine_is_told_those_there_are) {
  EXPECT_THAT(test::refusal([] { return cache_geometry_named("nehalem"); }),
              ::testing::AllOf(HasSubstr("nehalem"), HasSubstr("i7_4770")));
}

cache_geometry geometry_of(const char* description) { return cache_geometry_of(synthetic(description)); }

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

using order = std::vector<unsigned>;

TEST(affinity, policies) {
  const auto machine = synthetic("pack:2 core:3 pu:2");
  EXPECT_EQ(pin_order(machine, pin_policy::cores), (order{0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11}));
  EXPECT_EQ(pin_order(machine, pin_policy::scatter), (order{0, 6, 2, 8, 4, 10, 1, 7, 3, 9, 5, 11}));
  EXPECT_THAT(pin_order(machine, pin_policy::none), IsEmpty());
  const auto renumbered = synthetic("pack:2 core:2 pu:2(indexes=0,4,1,5,2,6,3,7)");
  EXPECT_EQ(pin_order(renumbered, pin_policy::cores), (order{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(pin_order(renumbered, pin_policy::scatter), (order{0, 2, 1, 3, 4, 6, 5, 7}));
}

TEST(affinity, large_machine_is_listed_whole_and_once) {
  const auto machine = synthetic("pack:4 [numa] l3:1 core:10 pu:2");
  order all(80);
  std::iota(all.begin(), all.end(), 0U);
  for (const auto policy : {pin_policy::cores, pin_policy::scatter}) {
    auto listed = pin_order(machine, policy);
    EXPECT_EQ(listed[0], 0U);
    EXPECT_EQ(listed[1], policy == pin_policy::cores ? 2U : 20U);
    EXPECT_EQ(listed[40], 1U);
    std::ranges::sort(listed);
    EXPECT_EQ(listed, all);
  }
}

TEST(affinity, forbidden_pus_are_left_out) {
  const auto machine = synthetic("pack:2 core:2 pu:2");
  // Core 0 has only its sibling left, which then stands for the core.
  const order allowed{7, 1, 4, 2, 3, 99};
  EXPECT_EQ(pin_order(machine, pin_policy::cores, allowed), (order{1, 2, 4, 7, 3}));
  // Package 0 has one PU more than package 1.
  EXPECT_EQ(pin_order(machine, pin_policy::scatter, allowed), (order{1, 4, 2, 7, 3}));
  EXPECT_THAT(pin_order(machine, pin_policy::cores, order{}), IsEmpty());
}

TEST(affinity, this_machine_lists_exactly_the_allowed_pus) {
  auto listed = pin_order(topology::system(), pin_policy::cores);
  std::ranges::sort(listed);
  EXPECT_EQ(listed, allowed_pus());
}

TEST(affinity, pinned_thread_runs_there_and_is_released) {
  const auto before = allowed_pus();
  for (const unsigned pu : before) {
    const scoped_pin pin(pu);
    EXPECT_THAT(allowed_pus(), ElementsAre(pu));
    EXPECT_EQ(current_cpu(), pu);
    // The mask of the thread counts, so the list shrinks with it.
    EXPECT_THAT(pin_order(topology::system(), pin_policy::cores), ElementsAre(pu));
  }
  EXPECT_EQ(allowed_pus(), before);
}

TEST(affinity, nested_pins_restore_step_by_step) {
  const auto before = allowed_pus();
  {
    const scoped_pin outer(before.front());
    {
      const scoped_pin inner(before.back());
    }
    EXPECT_THAT(allowed_pus(), ElementsAre(before.front()));
  }
  EXPECT_EQ(allowed_pus(), before);
}

TEST(affinity, pin_leaves_other_threads_alone) {
  const auto before = allowed_pus();
  std::thread([&] {
    const scoped_pin pin(before.front());
    EXPECT_THAT(allowed_pus(), ElementsAre(before.front()));
  }).join();
  EXPECT_EQ(allowed_pus(), before);
}

TEST(affinity, refusal_names_the_pu) {
  const auto before = allowed_pus();
  for (const unsigned pu : {100'000U, std::numeric_limits<unsigned>::max(), 1023U}) {
    if (std::ranges::binary_search(before, pu)) continue;
    try {
      const scoped_pin pin(pu);
      ADD_FAILURE() << "pinned to PU " << pu;
    } catch (const std::system_error& error) {
      EXPECT_THAT(error.what(), HasSubstr("PU " + std::to_string(pu)));
      EXPECT_EQ(error.code(), std::errc::invalid_argument);
    }
  }
  EXPECT_EQ(allowed_pus(), before);
}

}  // namespace
}  // namespace espalier::hw
