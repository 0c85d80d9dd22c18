#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "apps/oltp/benchmark.hpp"

// The shares that TPC-C prescribes: when they count as missed, and that they are met by what its clients draw.

namespace espalier::app::db {
namespace {

share_verdict verdict_of(std::uint64_t n, std::uint64_t of) {
  return share_of("one of a hundred", n, of, 0.95, 1.05).verdict();
}

TEST(tpcc_shares, are_met_in_the_range) {
  EXPECT_EQ(verdict_of(1'000, 100'000), share_verdict::met);
  EXPECT_EQ(verdict_of(950, 100'000), share_verdict::met);
  EXPECT_EQ(verdict_of(1'050, 100'000), share_verdict::met);
}

TEST(tpcc_shares, say_nothing_where_chance_explains_them) {
  EXPECT_EQ(verdict_of(0, 100), share_verdict::too_few);
  // The standard deviation of 100,000 draws is 0.031 points.
  EXPECT_EQ(verdict_of(1'100, 100'000), share_verdict::too_few);
  EXPECT_EQ(verdict_of(900, 100'000), share_verdict::too_few);
}

TEST(tpcc_shares, are_missed_beyond_that) {
  EXPECT_EQ(verdict_of(1'150, 100'000), share_verdict::missed);
  EXPECT_EQ(verdict_of(850, 100'000), share_verdict::missed);
  EXPECT_EQ(verdict_of(11'000, 1'000'000), share_verdict::missed);
  EXPECT_EQ(verdict_of(2'000, 100'000), share_verdict::missed);
}

TEST(tpcc_shares, are_met_by_some_thousand_draws) {
  for (const std::uint64_t seed : {1U, 2U, 3U, 42U}) {
    const auto b = make_tpcc({}, {.warehouses = 2, .customers = 60, .items = 500});
    std::vector<std::uint64_t> drawn(b->kinds().size());
    std::vector<std::uint64_t> tallies;
    for (const unsigned thread : {0U, 1U}) {
      const auto c = b->connect(thread, 2, seed);
      for (int i = 0; i < 5'000; ++i) ++drawn[c->draw()];
      const std::vector<std::uint64_t> of_client = c->tallies();
      tallies.resize(of_client.size());
      std::ranges::transform(of_client, tallies, tallies.begin(), std::plus<>());
    }
    EXPECT_EQ(drawn, (std::vector<std::uint64_t>{4'500, 4'300, 400, 400, 400}));
    EXPECT_EQ(b->shares(tallies).size(), 5);
    for (const share& s : b->shares(tallies))
      EXPECT_EQ(s.verdict(), share_verdict::met) << s.name << ": " << s.value << ", seed " << seed;
  }
}

}  // namespace
}  // namespace espalier::app::db
