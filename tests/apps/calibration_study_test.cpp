// Claims of the study calibration, judged over readings of which it is known what they say.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "apps/judged.hpp"
#include "apps/studies/calibration/claims.hpp"

namespace espalier::app {
namespace {

using namespace ::testing;

/// What is said of each machine where every operation takes so long, by every number of threads.
std::vector<judged_claim> calibrated(const char* machine, const calibration::exercise_reading& each) {
  const calibration::setting where{.machine = machine,
                                   .ghz = 2,
                                   .sockets = 4,
                                   .socket_cores = 10,
                                   .transactions = true,
                                   .threads = {1, 2, 10, 40}};
  calibration::results measured;
  charted_figure all;
  for (const calibration::page& p : calibration::pages_of(where)) {
    for (const calibration::exercise& e : p.exercises) measured.add(e, each);
    p.show(measured, all);
  }
  return all.findings;
}

TEST(calibration_study, a_number_agrees_within_a_factor_of_the_published_one) {
  const auto verdict_of = [](const std::string& claim, double cycles) {
    for (const judged_claim& c : calibrated("e7_4850:no-links", {.speed = 1, .cycles = cycles}))
      if (c.claim.starts_with(claim)) return c.ours.verdict;
    return unknown;
  };
  const std::string modified = "load, modified, this socket: 109 cycles";
  for (const auto& [cycles, found] :
       std::map<double, agreement>{{72, differs}, {73, agrees}, {109, agrees}, {163, agrees}, {164, differs}})
    EXPECT_EQ(verdict_of(modified, cycles), found) << cycles;
  EXPECT_EQ(verdict_of("Without contention an operation across sockets", 100), differs);
  EXPECT_EQ(verdict_of("Under low contention a ticket lock", 100), agrees);
}

TEST(calibration_study, judges_nothing_over_readings_that_are_too_short) {
  for (const judged_claim& c :
       calibrated("abu_dhabi", {.speed = 1, .cycles = 100, .too_short = "Too short"})) {
    EXPECT_EQ(c.ours.verdict, too_short) << c.claim;
    EXPECT_THAT(c.ours.sentence, StartsWith("Too short (")) << c.claim;
  }
}

}  // namespace
}  // namespace espalier::app
