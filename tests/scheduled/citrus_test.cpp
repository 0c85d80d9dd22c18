#include <gtest/gtest.h>

#include "scheduled/citrus_scenes.hpp"
#include "scheduled/schedules.hpp"
#include "sim/explore.hpp"

namespace {

using namespace espalier;

void expect_kept(const char* name, double schedules, void (*build)(sim::scene&)) {
  sim::exploration_options o;
  o.schedules = sim::scaled_schedules(schedules);
  const auto report = sim::explore(name, o, build);
  EXPECT_TRUE(report.passed()) << report;
}

#define ESPALIER_CITRUS_SCENE(name, schedules) \
  TEST(citrus, name) { expect_kept(#name, schedules, sim::name); }

ESPALIER_CITRUS_SCENE(insert_at_an_edge_that_is_empty_again, 200)
ESPALIER_CITRUS_SCENE(insert_at_an_edge_that_is_empty_later, 200)
ESPALIER_CITRUS_SCENE(insert_below_the_successor, 200)
ESPALIER_CITRUS_SCENE(successor_gets_a_left_child, 200)
ESPALIER_CITRUS_SCENE(successor_goes, 200)
ESPALIER_CITRUS_SCENE(readers_beside_a_stopped_erase, 200)
ESPALIER_CITRUS_SCENE(insert_beside_a_move, 5000)
ESPALIER_CITRUS_SCENE(copy_is_erased_during_the_move, 5000)
ESPALIER_CITRUS_SCENE(searches_are_overtaken, 5000)
ESPALIER_CITRUS_SCENE(moves_that_share_nodes, 5000)

}  // namespace
