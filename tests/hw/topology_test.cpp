#include "espalier/hw/topology.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>

namespace espalier::hw {
namespace {

using ::testing::HasSubstr;

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
  try {
    topology::discover();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return {};
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
  EXPECT_NE(message_of_discover(), "");
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

}  // namespace
}  // namespace espalier::hw
