#include "preload/random_malloc/padding.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <limits>
#include <map>
#include <set>

namespace espalier::preload {
namespace {

using ::testing::ElementsAre;

std::set<std::size_t> drawn(std::size_t bytes, std::size_t align, std::size_t largest) {
  measure::random_generator random(7);
  std::set<std::size_t> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(padded(bytes, align, largest, random) - bytes);
  return seen;
}

TEST(padding, is_every_multiple_of_the_step_and_nothing_else) {
  EXPECT_THAT(drawn(100, 1, 64), ElementsAre(0, 16, 32, 48, 64));
  EXPECT_THAT(drawn(16, 1, 16), ElementsAre(0, 16));
  EXPECT_THAT(drawn(100, 16, 0), ElementsAre(0));
}

TEST(padding, is_as_often_one_multiple_as_another) {
  measure::random_generator random(11);
  std::map<std::size_t, int> times;
  for (int i = 0; i < 80000; ++i) ++times[padded(500, 1, 112, random) - 500];
  ASSERT_EQ(times.size(), 8U);
  // Ten standard deviations.
  for (const auto& [added, n] : times) EXPECT_NEAR(n, 10000, 1000) << added;
}

TEST(padding, does_not_more_than_double_a_block) {
  EXPECT_THAT(drawn(0, 1, 1008), ElementsAre(0));
  EXPECT_THAT(drawn(15, 1, 1008), ElementsAre(0));
  EXPECT_THAT(drawn(16, 1, 1008), ElementsAre(0, 16));
  EXPECT_THAT(drawn(47, 1, 1008), ElementsAre(0, 16, 32));
  EXPECT_THAT(drawn(100, 64, 1008), ElementsAre(0, 64));
  EXPECT_EQ(drawn(5000, 1, 1008).size(), 64U);
}

TEST(padding, leaves_a_multiple_of_the_alignment_one) {
  EXPECT_THAT(drawn(256, 64, 240), ElementsAre(0, 64, 128, 192));
  EXPECT_THAT(drawn(256, 128, 112), ElementsAre(0)) << "a step would be more than is allowed";
  EXPECT_THAT(drawn(72, 24, 50), ElementsAre(0, 24, 48))
      << "what is no alignment is the allocator's to refuse";
}

TEST(padding, makes_no_hopeless_request_a_small_one) {
  measure::random_generator random(3);
  constexpr std::size_t all = std::numeric_limits<std::size_t>::max();
  for (const std::size_t bytes :
       {all, all - 1, all - 112, std::size_t{PTRDIFF_MAX}, std::size_t{PTRDIFF_MAX} - 111}) {
    for (int i = 0; i < 100; ++i) EXPECT_EQ(padded(bytes, 1, 112, random), bytes);
  }
  for (int i = 0; i < 100; ++i) {
    const std::size_t most = padded(std::size_t{PTRDIFF_MAX} - 112, 1, 112, random);
    EXPECT_LE(most, std::size_t{PTRDIFF_MAX});
  }
}

}  // namespace
}  // namespace espalier::preload
