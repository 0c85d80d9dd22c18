// Claims of the study atc18, judged over readings of which it is known what they say.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>

#include "apps/judged.hpp"
#include "apps/studies/atc18/claims.hpp"

namespace espalier::app {
namespace {

using namespace ::testing;

TEST(atc18_study, claims_speak_of_maps_that_their_figure_measures) {
  for (const atc18::figure& f : atc18::figures()) {
    readings all;
    std::set<std::string> maps;
    for (const auto& group : f.groups) {
      for (const atc18::subject& s : group) {
        EXPECT_TRUE(maps.insert(s.name()).second) << f.id << " has " << s.name() << " twice";
        for (const std::uint64_t keys : f.keys) all.add(s.name(), keys, steady(100));
      }
    }
    for (const judged_claim& found : judge_all(f.claims, all, f.keys))
      EXPECT_THAT(found.ours.sentence, Not(HasSubstr("Not measured"))) << f.id << ": " << found.ours.sentence;
  }
}

TEST(atc18_study, judges_nothing_over_readings_that_are_too_short) {
  for (const atc18::figure& f : atc18::figures()) {
    readings all;
    reading one = steady(100);
    one.too_short = "Too short";
    for (const auto& group : f.groups) {
      for (const atc18::subject& s : group) {
        for (const std::uint64_t keys : f.keys) all.add(s.name(), keys, one);
      }
    }
    for (const judged_claim& found : judge_all(f.claims, all, f.keys)) {
      if (found.ours.verdict == unknown) continue;  // for another reason
      EXPECT_EQ(found.ours.verdict, too_short) << f.id;
      EXPECT_THAT(found.ours.sentence, HasSubstr("Too short (")) << f.id;
    }
  }
}

}  // namespace
}  // namespace espalier::app
