#include <gtest/gtest.h>

#include "apps/oltp/benchmark.hpp"

// When the shares that TPC-C prescribes count as missed.

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

}  // namespace
}  // namespace espalier::app::db
