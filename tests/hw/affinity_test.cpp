#include "espalier/hw/affinity.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <string>
#include <system_error>
#include <thread>

#include "espalier/hw/topology.hpp"

namespace espalier::hw {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using order = std::vector<unsigned>;

topology synthetic(const char* description) {
  setenv("HWLOC_SYNTHETIC", description, 1);
  auto machine = topology::discover();
  unsetenv("HWLOC_SYNTHETIC");
  return machine;
}

TEST(affinity, cores_go_before_siblings) {
  const auto machine = synthetic("pack:2 core:3 pu:2");
  EXPECT_EQ(pin_order(machine, pin_policy::cores), (order{0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11}));
}

TEST(affinity, scatter_takes_packages_in_turn) {
  const auto machine = synthetic("pack:2 core:3 pu:2");
  EXPECT_EQ(pin_order(machine, pin_policy::scatter), (order{0, 6, 2, 8, 4, 10, 1, 7, 3, 9, 5, 11}));
}

TEST(affinity, none_pins_nothing) {
  EXPECT_THAT(pin_order(synthetic("pack:2 core:3 pu:2"), pin_policy::none), IsEmpty());
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

TEST(affinity, operating_system_numbering_is_followed) {
  const auto machine = synthetic("pack:2 core:2 pu:2(indexes=0,4,1,5,2,6,3,7)");
  EXPECT_EQ(pin_order(machine, pin_policy::cores), (order{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(pin_order(machine, pin_policy::scatter), (order{0, 2, 1, 3, 4, 6, 5, 7}));
}

TEST(affinity, this_machine_lists_exactly_the_allowed_pus) {
  auto listed = pin_order(topology::system(), pin_policy::cores);
  std::ranges::sort(listed);
  EXPECT_EQ(listed, allowed_pus());
}

TEST(affinity, pinned_thread_runs_there_and_is_released) {
  const auto before = allowed_pus();
  for (const unsigned pu : before) {
    const auto pin = pin_current_thread(pu);
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
