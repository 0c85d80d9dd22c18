#include <gtest/gtest.h>

#include "scheduled/int_lf_scenes.hpp"
#include "scheduled/schedules.hpp"
#include "sim/explore.hpp"

// Situations that the battery does not reach: helpers that find relocations late, or on a path that no longer exists.

namespace {

using namespace espalier;

void expect_passed(const char* name, void (*build)(sim::scene&)) {
  sim::exploration_options o;
  o.schedules = sim::scaled_schedules(8000);
  const auto report = sim::explore(name, o, build);
  EXPECT_TRUE(report.passed()) << report;
}

TEST(int_lf, target_goes_otherwise) { expect_passed("target_goes_otherwise", sim::target_goes_otherwise); }
TEST(int_lf, path_goes) { expect_passed("path_goes", sim::path_goes); }
TEST(int_lf, target_twice) { expect_passed("target_twice", sim::target_twice); }
TEST(int_lf, value_recurs) { expect_passed("value_recurs", sim::value_recurs); }

}  // namespace
