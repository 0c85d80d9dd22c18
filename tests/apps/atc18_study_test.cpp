// Claims of the study atc18, judged over readings of which it is known what they say.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "apps/judged.hpp"
#include "apps/studies/atc18/claims.hpp"
#include "espalier/hw/cache_geometry.hpp"
#include "espalier/inspect/snapshot.hpp"

namespace espalier::app {
namespace {

using namespace ::testing;

TEST(atc18_study, places_are_counted_of_the_sets_and_of_the_lines_with_leaves) {
  hw::cache_geometry caches;
  caches.l1 = {.sets = 4, .ways = 1};
  caches.l2 = {.sets = 8, .ways = 1};
  caches.llc = {.sets = 32, .ways = 1};
  // A router in every second line. Its leaf is in its line, in the next one of its pair, in the next pair, or far away.
  std::vector<inspect::live_block> blocks;
  std::vector<inspect::link> links;
  for (const std::uint64_t leaf : {32, 64, 128, 4096}) {
    const std::uint64_t router = 0x10000 + blocks.size() * 0x1000;
    blocks.push_back({router + (leaf == 128 ? 64 : 0), 32, 0, 0});
    blocks.push_back({router + leaf, 32, 0, 1});
  }
  std::vector<inspect::block_type> types(2);
  types[0].name = "node";
  types[1].name = "leaf";
  inspect::snapshot s = inspect::make_snapshot("tree", types, blocks);
  for (std::uint32_t i = 0; i < s.blocks.size(); i += 2) links.push_back({i, i + 1});
  s.links = links;
  s.links_unknown.clear();
  const node_places p = atc18::places_of(s, caches);
  EXPECT_EQ(p.unused_l1, 0.5);
  EXPECT_EQ(p.unused_l2, 0.75);
  EXPECT_EQ(p.unused_llc, 1 - 2 / 32.0);
  EXPECT_EQ(p.leaf_in_line, 0.25);
  EXPECT_EQ(p.leaf_in_next_line, 0.5);
  EXPECT_EQ(p.leaf_in_next_pair, 0.5);
}

TEST(atc18_study, a_load_has_a_part_of_the_threads_and_a_name) {
  EXPECT_EQ((atc18::load{"100/0/0", 0}.threads_of(64)), 1U);
  EXPECT_EQ((atc18::load{"100/0/0", 4}.threads_of(64)), 16U);
  EXPECT_EQ((atc18::load{"100/0/0", 4}.threads_of(2)), 1U);
  EXPECT_EQ((atc18::load{"100/0/0", 1}.name_of("ticket")), "ticket");
  EXPECT_EQ((atc18::load{"90/5/5", 1}.name_of("ticket")), "ticket with 90 % look-ups");
  EXPECT_EQ((atc18::load{"100/0/0", 4}.name_of("ticket")), "ticket with 1/4 of the threads");
}

TEST(atc18_study, claims_speak_of_maps_that_their_figure_measures) {
  for (const atc18::figure& f : atc18::figures()) {
    readings all;
    std::set<std::string> maps;
    for (const auto& group : f.groups) {
      for (const atc18::subject& s : group) {
        EXPECT_TRUE(maps.insert(s.name()).second) << f.id << " has " << s.name() << " twice";
        for (const atc18::load& l : f.loads) {
          reading one = steady(100);
          one.threads = l.threads_of(64);
          for (const std::uint64_t keys : f.keys) all.add(l.name_of(s.name()), keys, one);
        }
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
        for (const atc18::load& l : f.loads) {
          one.threads = l.threads_of(64);
          for (const std::uint64_t keys : f.keys) all.add(l.name_of(s.name()), keys, one);
        }
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
