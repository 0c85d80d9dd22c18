#include "espalier/inspect/played_pattern.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <stdexcept>

#include "espalier/hw/cache_geometry.hpp"
#include "espalier/inspect/analysis.hpp"
#include "support/sanitizers.hpp"

namespace espalier::inspect {
namespace {

constexpr std::uint64_t rounds = 20'000;

analysis played(const char* pattern, const char* placement) {
  any_placement from(placement);
  const played_pattern all(allocation_pattern_named(pattern), rounds, from);
  return analyze(all.layout(), hw::cache_geometry_named("haswell"));
}

const type_analysis& nodes_of(const analysis& a) {
  const auto node = std::ranges::find(a.types, "node", &block_type::name);
  return a.by_type.at(static_cast<std::size_t>(node - a.types.begin()));
}

TEST(played_pattern, has_the_blocks_of_the_pattern) {
  any_placement from("segregated");
  {
    const played_pattern all(allocation_pattern_named("ycsb-48"), 10, from);
    const snapshot s = all.layout();
    EXPECT_EQ(s.blocks.size(), 60U);
    EXPECT_EQ(from.usage().blocks, 60U);
    std::multiset<std::uint64_t> sizes;
    for (const live_block& b : s.blocks) sizes.insert(b.bytes);
    for (const std::uint64_t bytes : {48U, 64U, 128U, 192U, 32U})
      EXPECT_EQ(sizes.count(bytes), bytes == 64 ? 20U : 10U) << bytes;
  }
  EXPECT_EQ(from.usage().blocks, 0U);
}

TEST(played_pattern, takes_further_blocks_between) {
  any_placement from("segregated");
  {
    const played_pattern all(allocation_pattern_named("ndnd-allocs"), 1000, from);
    EXPECT_EQ(all.layout().blocks.size(), 2000U) << "which belong to no type";
    EXPECT_GT(from.usage().blocks, 2300U);
  }
  EXPECT_EQ(from.usage().blocks, 0U);
}

// Section 4.3.3. A heap that lays blocks end to end has a few nodes in each page, one of size classes has pages of
// nodes far apart.
TEST(played_pattern, segregated_nodes_lie_in_few_pages_one_behind_the_other) {
  const page_use apart = nodes_of(played("ycsb-48", "segregated")).pages;
  EXPECT_EQ(apart.mixed_pages, 0U);
  EXPECT_LE(apart.pages, apart.fewest_pages + apart.runs);
  if (test::address_sanitizer || test::thread_sanitizer)
    GTEST_SKIP() << "a sanitizer's malloc lays blocks as no program has them";
  const page_use shared = nodes_of(played("ycsb-48", "shared_heap")).pages;
  EXPECT_TRUE(shared.pages >= 5 * apart.pages || shared.runs >= 5 * apart.runs)
      << shared.pages << " pages in " << shared.runs << " runs against " << apart.pages << " in "
      << apart.runs;
}

// Section 4.3.1: rows, wrappers and nodes of one size class in turns.
TEST(played_pattern, nodes_of_a_shared_class_have_others_beside_them) {
  const analysis apart = played("rwn", "segregated");
  EXPECT_EQ(nodes_of(apart).mixed.in_pair, 0U);
  EXPECT_EQ(nodes_of(apart).caches[0].best().unused, 0U);
}

TEST(played_pattern, a_letter_without_an_object_is_refused) {
  allocation_pattern wrong = allocation_pattern_named("ndnd");
  wrong.order = "NX";
  any_placement from("segregated");
  EXPECT_THROW(played_pattern(wrong, 1, from), std::invalid_argument);
  EXPECT_EQ(from.usage().blocks, 0U);
}

}  // namespace
}  // namespace espalier::inspect
