#include <gtest/gtest.h>

#include "scheduled/log_int_scenes.hpp"
#include "scheduled/schedules.hpp"
#include "sim/explore.hpp"

namespace {

using namespace espalier;
using namespace espalier::sim::log_int_scenes;

void expect_kept(const char* name, void (*build)(sim::scene&)) {
  sim::exploration_options o;
  o.schedules = sim::scaled_schedules(4000);
  const auto report = sim::explore(name, o, build);
  EXPECT_TRUE(report.passed()) << report;
}

TEST(log_int, search_from_above_then_from_below) {
  expect_kept("search_from_above_then_from_below", search_from_above_then_from_below);
}
TEST(log_int, key_comes_beside_a_node_that_goes) {
  expect_kept("key_comes_beside_a_node_that_goes", key_comes_beside_a_node_that_goes);
}
TEST(log_int, key_comes_beside_a_node_that_goes_mirrored) {
  expect_kept("key_comes_beside_a_node_that_goes_mirrored", key_comes_beside_a_node_that_goes_mirrored);
}
TEST(log_int, parents_go_beside_the_erase_of_a_child) {
  expect_kept("parents_go_beside_the_erase_of_a_child", parents_go_beside_the_erase_of_a_child);
}
TEST(log_int, key_comes_beside_a_node_that_was_moved) {
  expect_kept("key_comes_beside_a_node_that_was_moved", key_comes_beside_a_node_that_was_moved);
}

}  // namespace
