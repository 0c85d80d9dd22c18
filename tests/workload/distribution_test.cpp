// Random numbers, and the distributions of keys that are made of them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "espalier/workload/distribution.hpp"
#include "espalier/workload/random.hpp"
#include "workload/chi_square.hpp"

namespace espalier::workload {
namespace {

using ::testing::AllOf;
using testing::chi_square;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

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

constexpr std::uint64_t draws = 200'000;

std::vector<std::uint64_t> tally(std::string_view text, std::uint64_t keys, std::uint64_t times = draws,
                                 std::uint64_t seed = 42) {
  const distribution source(distribution_spec::parse(text), keys, seed);
  sampler sample(source, seed);
  std::vector<std::uint64_t> seen(keys);
  for (std::uint64_t i = 0; i < times; ++i) ++seen.at(sample.next());
  return seen;
}

std::vector<double> zipf_weights(std::uint64_t keys, double theta) {
  std::vector<double> weights(keys);
  for (std::uint64_t i = 0; i < keys; ++i) weights[i] = std::pow(static_cast<double>(i + 1), -theta);
  return weights;
}

std::vector<double> normal_weights(std::uint64_t keys, double sigma) {
  const auto n = static_cast<double>(keys);
  const auto below = [&](double x) {
    return std::erfc(-(x - n / 2) / (sigma * n) / std::numbers::sqrt2) / 2;
  };
  std::vector<double> weights(keys);
  for (std::uint64_t i = 0; i < keys; ++i) {
    weights[i] = below(static_cast<double>(i + 1)) - below(static_cast<double>(i));
  }
  return weights;
}

std::vector<double> poisson_weights(std::uint64_t keys, double mean) {
  std::vector<double> weights(keys);
  for (std::uint64_t i = 0; i < keys; ++i) {
    const auto k = static_cast<double>(i);
    weights[i] = std::exp(k * std::log(mean) - mean - std::lgamma(k + 1));
  }
  return weights;
}

std::vector<double> self_similar_weights(std::uint64_t keys, double h) {
  // The share of the first fraction x of the keys is x to this power: h has the share 1 - h.
  const double power = std::log(1 - h) / std::log(h);
  const auto n = static_cast<double>(keys);
  std::vector<double> weights(keys);
  for (std::uint64_t i = 0; i < keys; ++i) {
    weights[i] =
        std::pow(static_cast<double>(i + 1) / n, power) - std::pow(static_cast<double>(i) / n, power);
  }
  return weights;
}

TEST(distribution, uniform_fits) {
  const auto fit = chi_square(tally("uniform", 1000), std::vector<double>(1000, 1));
  EXPECT_TRUE(fit.accepted()) << fit;
}

class zipfian_theta : public ::testing::TestWithParam<double> {};

TEST_P(zipfian_theta, fits_small_and_large_ranges) {
  const double theta = GetParam();
  const distribution_spec spec{distribution_kind::zipfian, {theta, 0}};
  for (const std::uint64_t keys : {2U, 3U, 1000U, 300'000U}) {
    const auto fit = chi_square(tally(spec.to_string(), keys), zipf_weights(keys, theta));
    EXPECT_TRUE(fit.accepted()) << "theta " << theta << ", " << keys << " keys: " << fit;
  }
}

INSTANTIATE_TEST_SUITE_P(thetas, zipfian_theta,
                         ::testing::Values(0.01, 0.5, 0.99, 1 - 1e-12, 1.0, 1 + 1e-9, 1.2, 2.0, 3.5));

TEST(distribution, zipfian_test_tells_near_thetas_apart) {
  EXPECT_FALSE(chi_square(tally("zipfian:0.9", 1000), zipf_weights(1000, 0.99)).accepted());
  EXPECT_FALSE(chi_square(tally("zipfian:0.99", 1000), zipf_weights(1000, 0.9)).accepted());
  EXPECT_FALSE(chi_square(tally("zipfian:0.99", 1000), zipf_weights(1000, 1.01)).accepted());
}

TEST(distribution, zipfian_stays_in_range_at_its_limits) {
  for (const auto* text : {"zipfian:0.0001", "zipfian:1", "zipfian:64"}) {
    for (const std::uint64_t keys :
         {std::uint64_t{1}, (std::uint64_t{1} << 53) - 1, std::uint64_t{1} << 53}) {
      const distribution source(distribution_spec::parse(text), keys);
      sampler sample(source, 1);
      for (int i = 0; i < 5000; ++i) ASSERT_LT(sample.next(), keys) << text;
    }
  }
  EXPECT_EQ(tally("zipfian:64", 10)[0], draws);  // the second rank has a probability of 2^-64
}

TEST(distribution, scrambled_zipfian_is_zipfian_behind_a_permutation) {
  const permutation scramble(1000, 42);
  const auto plain = zipf_weights(1000, 0.99);
  std::vector<double> weights(1000);
  for (std::uint64_t rank = 0; rank < 1000; ++rank) weights[scramble(rank)] = plain[rank];
  const auto seen = tally("scrambled-zipfian:0.99", 1000);
  const auto fit = chi_square(seen, weights);
  EXPECT_TRUE(fit.accepted()) << fit;
  EXPECT_FALSE(chi_square(seen, plain).accepted());
}

TEST(distribution, latest_counts_back_from_the_newest_key) {
  const distribution source(distribution_spec::parse("latest:0.99"), 1000);
  sampler sample(source, 42);
  for (const std::uint64_t inserted : {1000U, 1500U, 700U, 1U}) {
    std::vector<std::uint64_t> age(inserted);
    for (std::uint64_t i = 0; i < draws; ++i) ++age.at(inserted - 1 - sample.next(inserted));
    if (inserted == 1) continue;
    const auto fit = chi_square(age, zipf_weights(inserted, 0.99));
    EXPECT_TRUE(fit.accepted()) << inserted << " inserted: " << fit;
  }
  std::vector<std::uint64_t> age(1000);
  for (std::uint64_t i = 0; i < draws; ++i) ++age.at(999 - sample.next());
  const auto fit = chi_square(age, zipf_weights(1000, 0.99));
  EXPECT_TRUE(fit.accepted()) << fit;
}

TEST(distribution, hotspot_fits) {
  std::vector<double> weights(1000, 0.8 / 200);
  std::fill(weights.begin() + 200, weights.end(), 0.2 / 800);
  const auto seen = tally("hotspot:0.2,0.8", 1000);
  const auto fit = chi_square(seen, weights);
  EXPECT_TRUE(fit.accepted()) << fit;

  std::fill(weights.begin(), weights.begin() + 200, 0.78 / 200);
  std::fill(weights.begin() + 200, weights.end(), 0.22 / 800);
  EXPECT_FALSE(chi_square(seen, weights).accepted());
}

TEST(distribution, hotspot_has_one_hot_key_at_least_and_may_have_no_cold_one) {
  EXPECT_GT(tally("hotspot:0.001,0.9", 10)[0], draws * 89 / 100);
  const auto fit = chi_square(tally("hotspot:1,0.1", 10), std::vector<double>(10, 1));
  EXPECT_TRUE(fit.accepted()) << fit;
  EXPECT_EQ(tally("hotspot:0.5,0", 10)[0], 0U);
}

TEST(distribution, normal_fits_and_is_truncated) {
  for (const double sigma : {0.01, 0.125, 1.0}) {
    const distribution_spec spec{distribution_kind::normal, {sigma, 0}};
    const auto fit = chi_square(tally(spec.to_string(), 1001), normal_weights(1001, sigma));
    EXPECT_TRUE(fit.accepted()) << "sigma " << sigma << ": " << fit;
  }
  EXPECT_FALSE(chi_square(tally("normal:0.13", 1001), normal_weights(1001, 0.125)).accepted());
}

TEST(distribution, self_similar_fits) {
  for (const double h : {0.01, 0.2, 0.5}) {
    const distribution_spec spec{distribution_kind::self_similar, {h, 0}};
    const auto fit = chi_square(tally(spec.to_string(), 1000), self_similar_weights(1000, h));
    EXPECT_TRUE(fit.accepted()) << "h " << h << ": " << fit;
  }
  EXPECT_FALSE(chi_square(tally("self-similar:0.21", 1000), self_similar_weights(1000, 0.2)).accepted());
}

TEST(distribution, poisson_fits_for_small_and_large_means) {
  for (const std::uint64_t keys : {1U, 2U, 10U, 1000U, 1'000'000U}) {
    const auto seen = tally("poisson", keys, 100'000);
    if (keys == 1) continue;
    const auto fit = chi_square(seen, poisson_weights(keys, static_cast<double>(keys) / 2));
    EXPECT_TRUE(fit.accepted()) << keys << " keys: " << fit;
  }
  const auto truncated = chi_square(tally("poisson:1", 100), poisson_weights(100, 100));
  EXPECT_TRUE(truncated.accepted()) << truncated;
  EXPECT_FALSE(chi_square(tally("poisson:0.5", 1000), poisson_weights(1000, 501)).accepted());
}

TEST(distribution, sequential_deals_the_indices_out_and_begins_again) {
  const distribution source(distribution_spec::parse("sequential"), 10);
  const auto visits = [&](unsigned thread, unsigned threads) {
    sampler sample(source, 1, thread, threads);
    std::vector<std::uint64_t> seen(6);
    for (auto& index : seen) index = sample.next();
    return seen;
  };
  EXPECT_THAT(visits(0, 3), ElementsAre(0, 3, 6, 9, 0, 3));
  EXPECT_THAT(visits(1, 3), ElementsAre(1, 4, 7, 1, 4, 7));
  EXPECT_THAT(visits(2, 3), ElementsAre(2, 5, 8, 2, 5, 8));
  EXPECT_THAT(visits(12, 13), ElementsAre(2, 2, 2, 2, 2, 2));
  sampler alone(source, 1);
  for (std::uint64_t i = 0; i < 25; ++i) EXPECT_EQ(alone.next(), i % 10);
}

TEST(distribution, handles_the_widest_ranges_that_it_allows) {
  const std::uint64_t widest = ~std::uint64_t{0};
  const distribution uniform(distribution_spec::parse("uniform"), widest);
  sampler anywhere(uniform, 1);
  std::uint64_t upper = 0;
  for (int i = 0; i < 1000; ++i) upper += anywhere.next() >> 63;
  EXPECT_NEAR(static_cast<double>(upper), 500, 100);

  const distribution sequential(distribution_spec::parse("sequential"), widest);
  sampler ordered(sequential, 1, 3, 4);
  EXPECT_EQ(ordered.next(), 3U);
  EXPECT_EQ(ordered.next(), 7U);
}

TEST(sampler, repeats_for_equal_seed_and_thread_and_differs_otherwise) {
  const distribution source(distribution_spec::parse("zipfian"), 1'000'000);
  const auto first = [&](std::uint64_t seed, unsigned thread) {
    sampler sample(source, seed, thread, 2);
    std::vector<std::uint64_t> drawn(20);
    for (auto& index : drawn) index = sample.next();
    return drawn;
  };
  EXPECT_EQ(first(1, 0), first(1, 0));
  EXPECT_NE(first(1, 0), first(1, 1));
  EXPECT_NE(first(1, 0), first(2, 0));
}

TEST(sampler, refuses_a_thread_out_of_range) {
  const distribution source(distribution_spec::parse("uniform"), 10);
  EXPECT_THROW(sampler(source, 1, 2, 2), std::invalid_argument);
  EXPECT_THROW(sampler(source, 1, 0, 0), std::invalid_argument);
}

TEST(distribution_spec, round_trips_through_text) {
  for (const auto* text :
       {"uniform", "zipfian:0.99", "zipfian:1", "zipfian:1.25", "scrambled-zipfian:0.99", "latest:0.99",
        "hotspot:0.2,0.8", "normal:0.125", "self-similar:0.2", "poisson:0.5", "sequential"}) {
    const auto spec = distribution_spec::parse(text);
    EXPECT_EQ(spec.to_string(), text);
    EXPECT_EQ(distribution_spec::parse(spec.to_string()), spec);
  }
  const auto third = distribution_spec{distribution_kind::zipfian, {1.0 / 3, 0}};
  EXPECT_EQ(distribution_spec::parse(third.to_string()), third);
}

TEST(distribution_spec, has_defaults) {
  EXPECT_EQ(distribution_spec::parse("normal").to_string(), "normal:0.125");
  EXPECT_EQ(distribution_spec::parse("poisson").to_string(), "poisson:0.5");
  EXPECT_EQ(distribution_spec::parse("zipfian").to_string(), "zipfian:0.99");
  EXPECT_EQ(distribution_spec::parse("hotspot").to_string(), "hotspot:0.2,0.8");
}

std::string refusal(std::string_view text) {
  try {
    distribution_spec::parse(text);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

TEST(distribution_spec, refuses_an_unknown_kind_and_lists_the_known_ones) {
  for (const auto* text : {"", "zipf", "Uniform", "uniform ", ":0.5"}) {
    EXPECT_THAT(refusal(text), AllOf(HasSubstr("unknown kind"), HasSubstr(std::string("'") + text + "'"),
                                     HasSubstr("uniform, zipfian:THETA"), HasSubstr("hotspot:KEYS,DRAWS"),
                                     HasSubstr("sequential")));
    EXPECT_EQ(refusal(text).find('\n'), std::string::npos);
  }
}

TEST(distribution_spec, refuses_bad_parameters_and_shows_good_ones) {
  EXPECT_EQ(
      refusal("zipfian:0"),
      "distribution 'zipfian:0': THETA is 0, but 0 < THETA <= 64 is needed; expected zipfian:THETA, such "
      "as zipfian:0.99");
  for (const auto* text : {"zipfian:-1", "latest:65", "scrambled-zipfian:nan", "zipfian:inf", "normal:0",
                           "normal:1.5", "self-similar:0.6", "self-similar:0", "poisson:0", "poisson:2",
                           "hotspot:0,0.5", "hotspot:0.5,1.5", "hotspot:0.5,-0.1"}) {
    EXPECT_THAT(refusal(text), HasSubstr("is needed")) << text;
  }
  for (const auto* text : {"zipfian:", "zipfian:x", "zipfian:0.9x", "zipfian: 0.9", "hotspot:,"}) {
    EXPECT_THAT(refusal(text), HasSubstr("is no number")) << text;
  }
  EXPECT_THAT(refusal("hotspot:0.2"), HasSubstr("too few parameters"));
  for (const auto* text : {"hotspot:0.2,0.8,1", "zipfian:0.9,1", "uniform:1", "sequential:"}) {
    EXPECT_THAT(refusal(text), HasSubstr("too many parameters")) << text;
  }
}

TEST(distribution, refuses_ranges_that_it_cannot_draw) {
  const std::uint64_t large = (std::uint64_t{1} << 53) + 1;
  EXPECT_THROW(distribution(distribution_spec::parse("uniform"), 0), std::invalid_argument);
  for (const auto* text : {"zipfian", "scrambled-zipfian", "latest", "hotspot", "normal", "self-similar"}) {
    EXPECT_THROW(distribution(distribution_spec::parse(text), large), std::invalid_argument) << text;
    EXPECT_NO_THROW(distribution(distribution_spec::parse(text), large - 1)) << text;
  }
  EXPECT_THROW(distribution(distribution_spec::parse("poisson"), (std::uint64_t{1} << 40) + 1),
               std::invalid_argument);
  EXPECT_THROW(distribution({distribution_kind::zipfian, {-1, 0}}, 10), std::invalid_argument);
}

}  // namespace
}  // namespace espalier::workload
