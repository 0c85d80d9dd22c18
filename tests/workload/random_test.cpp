#include "espalier/workload/random.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

#include "workload/chi_square.hpp"

namespace espalier::workload {
namespace {

using testing::chi_square;

static_assert(std::uniform_random_bit_generator<random_generator>);
static_assert(sizeof(random_generator) == 32);

TEST(splitmix64, gives_the_published_numbers) {
  splitmix64 generator(1234567);
  EXPECT_EQ(generator.next(), 6457827717110365317U);
  EXPECT_EQ(generator.next(), 3203168211198807973U);
  EXPECT_EQ(generator.next(), 9817491932198370423U);
}

TEST(random_generator, steps_as_xoshiro256_star_star) {
  random_generator generator(std::array<std::uint64_t, 4>{1, 2, 3, 4});
  EXPECT_EQ(generator.next(), 11520U);  // rotl(2 * 5, 7) * 9
  EXPECT_EQ(generator.next(), 0U);      // the second word has become 0
  EXPECT_EQ(generator.next(), 1509978240U);
  EXPECT_EQ(generator.next(), 1215971899390074240U);
}

TEST(random_generator, repeats_for_equal_seed_and_stream_only) {
  EXPECT_EQ(random_generator(7, 3).next(), random_generator(7, 3).next());
  std::set<std::uint64_t> first;
  for (std::uint64_t seed = 0; seed < 64; ++seed) {
    for (std::uint64_t stream = 0; stream < 64; ++stream) first.insert(random_generator(seed, stream).next());
  }
  EXPECT_EQ(first.size(), 64U * 64U);
}

TEST(random_generator, draws_below_a_bound_without_bias) {
  random_generator generator(1);
  std::vector<std::uint64_t> seen(7);
  for (int i = 0; i < 70'000; ++i) ++seen.at(generator.below(7));
  const auto fit = chi_square(seen, std::vector<double>(7, 1));
  EXPECT_TRUE(fit.accepted()) << fit;
  EXPECT_EQ(generator.below(1), 0U);
}

TEST(random_generator, has_no_bias_even_where_the_bound_nearly_fills_the_word) {
  // A product without rejection maps two of every four words to a multiple of 3, which would get half of
  // the draws instead of a third.
  random_generator generator(2);
  const std::uint64_t bound = std::uint64_t{3} << 62;
  std::vector<std::uint64_t> by_remainder(3);
  for (int i = 0; i < 30'000; ++i) {
    const auto drawn = generator.below(bound);
    ASSERT_LT(drawn, bound);
    ++by_remainder.at(drawn % 3);
  }
  const auto fit = chi_square(by_remainder, std::vector<double>(3, 1));
  EXPECT_TRUE(fit.accepted()) << fit;
}

TEST(random_generator, draws_reals_uniformly_below_one) {
  random_generator generator(3);
  std::vector<std::uint64_t> seen(100);
  for (int i = 0; i < 100'000; ++i) {
    const double drawn = generator.unit();
    ASSERT_GE(drawn, 0);
    ASSERT_LT(drawn, 1);
    ++seen.at(static_cast<std::size_t>(drawn * 100));
  }
  const auto fit = chi_square(seen, std::vector<double>(100, 1));
  EXPECT_TRUE(fit.accepted()) << fit;
}

TEST(chi_square, rejects_a_slightly_loaded_die) {
  random_generator generator(4);
  std::vector<std::uint64_t> seen(6);
  for (int i = 0; i < 60'000; ++i) ++seen.at(generator.below(6));
  EXPECT_FALSE(chi_square(seen, {1, 1, 1, 1, 1, 1.1}).accepted());
}

}  // namespace
}  // namespace espalier::workload
