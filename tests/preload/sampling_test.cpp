#include "preload/recording/sampling.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

namespace espalier::preload {
namespace {

constexpr std::uint64_t tries = 100'000;

/// Share of blocks taken, of one size and at addresses 32 bytes apart.
double share(const sampling& sample, std::uint64_t bytes) {
  workload::splitmix64 random(42);
  std::uint64_t taken = 0;
  for (std::uint64_t i = 0; i < tries; ++i)
    taken += sample.takes(0x5555'0000'0000 + 32 * i, bytes, random.next()) ? 1 : 0;
  return static_cast<double>(taken) / tries;
}

/// Five standard deviations of a share of independent choices.
double tolerance(double p) { return 5 * std::sqrt(p * (1 - p) / tries); }

TEST(preload_sampling, of_all_takes_all) {
  EXPECT_EQ(share({}, 1), 1);
  EXPECT_FALSE(sampling{}.needs_chance());
}

TEST(preload_sampling, of_blocks_does_not_look_at_sizes) {
  const sampling sample{sampling::kind::blocks, 50};
  EXPECT_TRUE(sample.needs_chance());
  for (const std::uint64_t bytes : {0U, 8U, 1U << 30U})
    EXPECT_NEAR(share(sample, bytes), 0.02, tolerance(0.02)) << bytes;
  EXPECT_EQ(share({sampling::kind::blocks, 1}, 8), 1);
}

TEST(preload_sampling, of_bytes_takes_each_byte_with_the_same_chance) {
  const sampling sample{sampling::kind::bytes, 1000};
  EXPECT_NEAR(share(sample, 100), 0.1, tolerance(0.1));
  EXPECT_NEAR(share(sample, 500), 0.5, tolerance(0.5));
  EXPECT_EQ(share(sample, 1000), 1) << "a block that is as large is always taken";
  EXPECT_NEAR(share(sample, 0), 0.001, tolerance(0.001)) << "a block of no bytes counts as one";
}

TEST(preload_sampling, of_regions_takes_neighbours_together) {
  const sampling sample{sampling::kind::regions, 4};
  EXPECT_FALSE(sample.needs_chance());
  std::uint64_t regions = 0;
  constexpr std::uint64_t region = std::uint64_t{1} << sampling::region_bits;
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    const std::uintptr_t begin = 0x7000'0000'0000 + i * region;
    const bool whole = sample.may_hold(begin);
    regions += whole ? 1 : 0;
    for (const std::uintptr_t at : {begin, begin + 4096, begin + region - 16}) {
      ASSERT_EQ(sample.may_hold(at), whole);
      ASSERT_EQ(sample.takes(at, 64, i), whole) << "what is taken is what a free must look for";
    }
  }
  EXPECT_NEAR(static_cast<double>(regions) / 20'000, 0.25, 0.02);
}

TEST(preload_sampling, lets_frees_of_other_samples_look_everywhere) {
  EXPECT_TRUE((sampling{sampling::kind::blocks, 1000}.may_hold(64)));
  EXPECT_TRUE((sampling{sampling::kind::bytes, 1000}.may_hold(64)));
}

}  // namespace
}  // namespace espalier::preload
