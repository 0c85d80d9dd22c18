#include "sim/machine/this_machine.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <stdexcept>
#include <string>

#include "sim/machine/machine.hpp"

namespace espalier::sim {
namespace {

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
