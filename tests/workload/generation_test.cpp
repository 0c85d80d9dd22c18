// Random numbers and the distributions of keys that are made of them; key spaces; operations, drawn and recorded.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <numbers>
#include <ostream>
#include <random>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <unordered_set>
#include <vector>

#include "espalier/catalog/codec.hpp"
#include "espalier/measure/distribution.hpp"
#include "espalier/measure/random.hpp"
#include "espalier/workload/key_space.hpp"
#include "espalier/workload/operation_mix.hpp"
#include "espalier/workload/trace.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"

namespace espalier::workload {
namespace {

using namespace ::testing;
using namespace measure;

// Pearson's goodness-of-fit test for draws made with a fixed seed: the outcome never varies between runs.

struct goodness_of_fit {
  double statistic = 0;
  double critical = 0;  // exceeded by draws from the very distribution once in a million tests
  std::size_t cells = 0;

  [[nodiscard]] bool accepted() const { return cells > 1 && statistic < critical; }
  friend std::ostream& operator<<(std::ostream& out, const goodness_of_fit& fit) {
    return out << "chi-square " << fit.statistic << " in " << fit.cells << " cells, critical "
               << fit.critical;
  }
};

// Neighbouring cells are merged until each expects 10 draws. `weights` need not sum to 1.
goodness_of_fit chi_square(const std::vector<std::uint64_t>& observed, const std::vector<double>& weights) {
  double draws = 0;
  double total = 0;
  for (const auto count : observed) draws += static_cast<double>(count);
  for (const auto weight : weights) total += weight;

  std::vector<double> seen;
  std::vector<double> expected;
  double open_seen = 0;
  double open_expected = 0;
  for (std::size_t i = 0; i < observed.size(); ++i) {
    open_seen += static_cast<double>(observed[i]);
    open_expected += weights.at(i) / total * draws;
    if (open_expected < 10) continue;
    seen.push_back(open_seen);
    expected.push_back(open_expected);
    open_seen = open_expected = 0;
  }
  if (!seen.empty()) {
    seen.back() += open_seen;
    expected.back() += open_expected;
  }

  goodness_of_fit fit;
  fit.cells = seen.size();
  if (fit.cells < 2) return fit;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    fit.statistic += (seen[i] - expected[i]) * (seen[i] - expected[i]) / expected[i];
  }
  const auto freedom = static_cast<double>(fit.cells - 1);
  const double cube_root = 1 - 2 / (9 * freedom) + 4.7534 * std::sqrt(2 / (9 * freedom));  // Wilson, Hilferty
  fit.critical = freedom * cube_root * cube_root * cube_root;
  return fit;
}

::testing::AssertionResult fits(const char*, const char*, const std::vector<std::uint64_t>& observed,
                                const std::vector<double>& weights) {
  const goodness_of_fit fit = chi_square(observed, weights);
  return (fit.accepted() ? ::testing::AssertionSuccess() : ::testing::AssertionFailure()) << fit;
}

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
  EXPECT_PRED_FORMAT2(fits, seen, std::vector<double>(7, 1));
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
  EXPECT_PRED_FORMAT2(fits, by_remainder, std::vector<double>(3, 1));
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
  EXPECT_PRED_FORMAT2(fits, seen, std::vector<double>(100, 1));
}

TEST(chi_square, rejects_a_slightly_loaded_die) {
  random_generator generator(4);
  std::vector<std::uint64_t> seen(6);
  for (int i = 0; i < 60'000; ++i) ++seen.at(generator.below(6));
  EXPECT_FALSE(chi_square(seen, {1, 1, 1, 1, 1, 1.1}).accepted());
}

constexpr std::uint64_t draws = 200'000;

std::vector<std::uint64_t> tally(std::string_view text, std::uint64_t keys) {
  const distribution source(distribution_spec::parse(text), keys, 42);
  sampler sample(source, 42);
  std::vector<std::uint64_t> seen(keys);
  for (std::uint64_t i = 0; i < draws; ++i) ++seen.at(sample.next());
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

std::vector<double> poisson_weights_of_ranges(std::uint64_t keys_in_each, std::uint64_t ranges, double mean) {
  std::vector<double> weights;
  for (const double weight : poisson_weights(ranges, mean))
    weights.insert(weights.end(), keys_in_each, weight);
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

std::vector<double> hotspot_weights(double share) {
  std::vector<double> weights(1000, (1 - share) / 800);
  std::fill(weights.begin(), weights.begin() + 200, share / 200);
  return weights;
}

TEST(distribution, draws_fit_their_weights_and_no_near_ones) {
  struct fit {
    const char* text;
    std::vector<double> weights;
    bool holds = true;
  };
  const fit fits_or_not[] = {{"uniform", std::vector<double>(1000, 1)},
                             {"hotspot:0.2,0.8", hotspot_weights(0.8)},
                             {"hotspot:0.2,0.8", hotspot_weights(0.78), false},
                             {"normal:0.01", normal_weights(1001, 0.01)},
                             {"normal:0.125", normal_weights(1001, 0.125)},
                             {"normal:1", normal_weights(1001, 1)},
                             {"normal:0.13", normal_weights(1001, 0.125), false},
                             {"self-similar:0.01", self_similar_weights(1000, 0.01)},
                             {"self-similar:0.2", self_similar_weights(1000, 0.2)},
                             {"self-similar:0.5", self_similar_weights(1000, 0.5)},
                             {"self-similar:0.21", self_similar_weights(1000, 0.2), false},
                             {"poisson", poisson_weights(2, 1)},
                             {"poisson", poisson_weights(10, 5)},
                             {"poisson", poisson_weights(1000, 500)},
                             {"poisson", poisson_weights(1'000'000, 500'000)},
                             {"poisson:1", poisson_weights(100, 100)},
                             {"poisson:0.5", poisson_weights(1000, 501), false},
                             {"poisson:0.5,20", poisson_weights_of_ranges(50, 20, 10)},
                             {"poisson:0.5,10", poisson_weights_of_ranges(50, 20, 10), false},
                             {"poisson:0.5,2000", poisson_weights(1000, 500)},
                             {"zipfian:0.9", zipf_weights(1000, 0.99), false},
                             {"zipfian:0.99", zipf_weights(1000, 0.9), false},
                             {"zipfian:0.99", zipf_weights(1000, 1.01), false}};
  for (const fit& f : fits_or_not) {
    const goodness_of_fit found = chi_square(tally(f.text, f.weights.size()), f.weights);
    EXPECT_EQ(found.accepted(), f.holds) << f.text << " of " << f.weights.size() << ": " << found;
  }
  EXPECT_EQ(tally("poisson", 1)[0], draws);
}

class zipfian_theta : public ::testing::TestWithParam<double> {};

TEST_P(zipfian_theta, fits_small_and_large_ranges) {
  const double theta = GetParam();
  const distribution_spec spec{distribution_kind::zipfian, {theta, 0}};
  for (const std::uint64_t keys : {2U, 3U, 1000U, 300'000U}) {
    EXPECT_PRED_FORMAT2(fits, tally(spec.to_string(), keys), zipf_weights(keys, theta))
        << "theta " << theta << ", " << keys << " keys: ";
  }
}

INSTANTIATE_TEST_SUITE_P(thetas, zipfian_theta,
                         ::testing::Values(0.01, 0.5, 0.99, 1 - 1e-12, 1.0, 1 + 1e-9, 1.2, 2.0, 3.5));

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
  EXPECT_PRED_FORMAT2(fits, seen, weights);
  EXPECT_FALSE(chi_square(seen, plain).accepted());
}

TEST(distribution, latest_counts_back_from_the_newest_key) {
  const distribution source(distribution_spec::parse("latest:0.99"), 1000);
  sampler sample(source, 42);
  for (const std::uint64_t inserted : {1000U, 1500U, 700U, 1U}) {
    std::vector<std::uint64_t> age(inserted);
    for (std::uint64_t i = 0; i < draws; ++i) ++age.at(inserted - 1 - sample.next(inserted));
    if (inserted == 1) continue;
    EXPECT_PRED_FORMAT2(fits, age, zipf_weights(inserted, 0.99)) << inserted << " inserted: ";
  }
  std::vector<std::uint64_t> age(1000);
  for (std::uint64_t i = 0; i < draws; ++i) ++age.at(999 - sample.next());
  EXPECT_PRED_FORMAT2(fits, age, zipf_weights(1000, 0.99));
}

TEST(distribution, hotspot_has_one_hot_key_at_least_and_may_have_no_cold_one) {
  EXPECT_GT(tally("hotspot:0.001,0.9", 10)[0], draws * 89 / 100);
  EXPECT_PRED_FORMAT2(fits, tally("hotspot:1,0.1", 10), std::vector<double>(10, 1));
  EXPECT_EQ(tally("hotspot:0.5,0", 10)[0], 0U);
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
  for (const auto* text : {"uniform", "zipfian:0.99", "zipfian:1", "zipfian:1.25", "scrambled-zipfian:0.99",
                           "latest:0.99", "hotspot:0.2,0.8", "normal:0.125", "self-similar:0.2",
                           "poisson:0.5", "poisson:0.5,215", "sequential"}) {
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

std::string refusal_of_spec(std::string_view text) {
  return test::refusal([&] { return distribution_spec::parse(text); });
}

TEST(distribution_spec, refuses_an_unknown_kind_and_lists_the_known_ones) {
  for (const auto* text : {"", "zipf", "Uniform", "uniform ", ":0.5"}) {
    EXPECT_THAT(
        refusal_of_spec(text),
        AllOf(HasSubstr("unknown kind"), HasSubstr(std::string("'") + text + "'"),
              HasSubstr("uniform, zipfian:THETA"), HasSubstr("hotspot:KEYS,DRAWS"), HasSubstr("sequential")));
    EXPECT_EQ(refusal_of_spec(text).find('\n'), std::string::npos);
  }
}

TEST(distribution_spec, refuses_bad_parameters_and_shows_good_ones) {
  EXPECT_EQ(refusal_of_spec("zipfian:0"),
            "distribution 'zipfian:0': THETA is 0, but 0 < THETA <= 64 is needed; expected zipfian:THETA, "
            "such as zipfian:0.99");
  for (const auto* text : {"zipfian:-1", "latest:65", "scrambled-zipfian:nan", "zipfian:inf", "normal:0",
                           "normal:1.5", "self-similar:0.6", "self-similar:0", "poisson:0", "poisson:2",
                           "poisson:0.5,-1", "hotspot:0,0.5", "hotspot:0.5,1.5", "hotspot:0.5,-0.1"}) {
    EXPECT_THAT(refusal_of_spec(text), HasSubstr("is needed")) << text;
  }
  for (const auto* text : {"zipfian:", "zipfian:x", "zipfian:0.9x", "zipfian: 0.9", "hotspot:,"}) {
    EXPECT_THAT(refusal_of_spec(text), HasSubstr("is no number")) << text;
  }
  EXPECT_THAT(refusal_of_spec("hotspot:0.2"), HasSubstr("too few parameters"));
  for (const auto* text :
       {"hotspot:0.2,0.8,1", "zipfian:0.9,1", "uniform:1", "sequential:", "poisson:0.5,10,1"}) {
    EXPECT_THAT(refusal_of_spec(text), HasSubstr("too many parameters")) << text;
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

std::size_t index_of(map_operation op) {
  const auto* const found = std::find(drawn_operations.begin(), drawn_operations.end(), op);
  return static_cast<std::size_t>(found - drawn_operations.begin());
}

std::string refusal_of_mix(std::string_view text) {
  return test::refusal([&] { return operation_mix::parse(text); });
}

TEST(operation_mix, parses_lookup_insert_erase_percentages) {
  const auto mix = operation_mix::parse("90/4/6");
  EXPECT_EQ(mix.name, "90/4/6");
  EXPECT_THAT(mix.percent, ElementsAre(90, 4, 6, 0, 0, 0));
  EXPECT_EQ(mix.share(map_operation::erase), 6U);
  EXPECT_EQ(mix.share(map_operation::contains), 0U);
  EXPECT_EQ(mix.distribution, std::nullopt);
  EXPECT_THAT(operation_mix::parse("0/50/50").percent, ElementsAre(0, 50, 50, 0, 0, 0));
  EXPECT_EQ(operation_mix::parse("090/5/5").name, "90/5/5");
}

TEST(operation_mix, looks_up_what_is_present_and_loads_into_an_empty_map) {
  const auto hits = operation_mix::parse("Hits");
  EXPECT_EQ(hits.name, "hits");
  EXPECT_THAT(hits.percent, ElementsAre(100, 0, 0, 0, 0, 0));
  EXPECT_EQ(hits.distribution, distribution_spec::parse("uniform"));
  EXPECT_FALSE(hits.into_empty);
  const auto mix = operation_mix::parse("load");
  EXPECT_EQ(mix.name, "load");
  EXPECT_THAT(mix.percent, ElementsAre(0, 100, 0, 0, 0, 0));
  EXPECT_TRUE(mix.into_empty);
  EXPECT_FALSE(operation_mix::parse("0/100/0").into_empty);
}

TEST(operation_mix, knows_the_core_workloads_of_ycsb) {
  struct expectation {
    const char* name;
    operation_shares percent;
    const char* request;
  };
  // find, insert, erase, insert_or_assign, scan, update
  const std::array<expectation, 6> table{{
      {"ycsb-a", {50, 0, 0, 50, 0, 0}, "scrambled-zipfian:0.99"},
      {"ycsb-b", {95, 0, 0, 5, 0, 0}, "scrambled-zipfian:0.99"},
      {"ycsb-c", {100, 0, 0, 0, 0, 0}, "scrambled-zipfian:0.99"},
      {"ycsb-d", {95, 5, 0, 0, 0, 0}, "latest:0.99"},
      {"ycsb-e", {0, 5, 0, 0, 95, 0}, "scrambled-zipfian:0.99"},
      {"ycsb-f", {50, 0, 0, 0, 0, 50}, "scrambled-zipfian:0.99"},
  }};
  for (const auto& [name, percent, request] : table) {
    const auto mix = operation_mix::parse(name);
    EXPECT_EQ(mix.name, name);
    EXPECT_EQ(mix.percent, percent) << name;
    EXPECT_EQ(mix.distribution, distribution_spec::parse(request)) << name;
    EXPECT_EQ(mix.max_scan, 100U);
  }
  EXPECT_EQ(operation_mix::parse("YCSB-E").name, "ycsb-e");
}

TEST(operation_mix, draws_operations_by_their_shares) {
  const operation_mix mix("all", {40, 20, 5, 10, 24, 1});
  random_generator random(5);
  std::vector<std::uint64_t> seen(drawn_operations.size());
  for (int i = 0; i < 200'000; ++i) ++seen.at(index_of(mix.draw(random)));
  EXPECT_PRED_FORMAT2(fits, seen, (std::vector<double>{40, 20, 5, 10, 24, 1}));
  EXPECT_FALSE(chi_square(seen, {39, 21, 5, 10, 24, 1}).accepted());
}

// Measurements of different versions are compared: a seed must go on to mean the same operations.
TEST(operation_mix, draws_the_same_operations_from_a_seed_in_every_version) {
  const operation_mix mix("all", {40, 20, 5, 10, 24, 1});
  random_generator random(5);
  std::string drawn;
  for (int i = 0; i < 100; ++i) drawn += word_of(mix.draw(random)).front();
  EXPECT_EQ(
      drawn,
      "sllllslliliiuilissllsiulllslulsuiliiuuuiillirslllliislsillllllsleislulilllllslliielslillleilllslslis");
}

TEST(operation_mix, never_draws_what_has_no_share) {
  const auto mix = operation_mix::parse("ycsb-c");
  random_generator random(6);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(mix.draw(random), map_operation::find);
}

TEST(operation_mix, draws_scan_lengths_uniformly) {
  const auto mix = operation_mix::parse("ycsb-e");
  random_generator random(7);
  std::vector<std::uint64_t> seen(101);
  for (int i = 0; i < 100'000; ++i) ++seen.at(mix.draw_scan_length(random));
  EXPECT_EQ(seen[0], 0U);
  seen.erase(seen.begin());
  EXPECT_PRED_FORMAT2(fits, seen, std::vector<double>(100, 1));
}

TEST(operation_mix, says_which_sum_it_found_and_shows_an_example) {
  EXPECT_THAT(refusal_of_mix("90/5/6"), AllOf(HasSubstr("'90/5/6' sums to 101"), HasSubstr("90/5/5")));
  EXPECT_THAT(refusal_of_mix("0/0/0"), HasSubstr("sums to 0"));
  EXPECT_THAT(refusal_of_mix("4294967295/4294967295/2"), HasSubstr("sums to 8589934592"));
  EXPECT_THROW(operation_mix("short", {50, 0, 0, 0, 0, 49}), std::invalid_argument);
  EXPECT_THROW(operation_mix("no scans", {100, 0, 0, 0, 0, 0}, 0), std::invalid_argument);
}

TEST(operation_mix, refuses_other_text) {
  for (const auto* text : {"", "90", "90/10", "90/5/5/0", "90/5/", "/5/95", "90/-5/15", "90.0/5/5", "90 /5/5",
                           "99999999999/0/0", "ycsb-g", "ycsb", "a", "read-mostly"}) {
    EXPECT_THAT(refusal_of_mix(text),
                AllOf(HasSubstr("unknown operation mix"), HasSubstr("90/5/5"), HasSubstr("ycsb-a to ycsb-f")))
        << text;
  }
}

TEST(word_of, names_each_operation_in_results) {
  std::string words;
  for (const map_operation op : map_operations) words.append(word_of(op)).append(" ");
  EXPECT_TRUE(
      words.starts_with("lookup contains insert update erase exchange extract read_modify_write scan "))
      << words;
}

constexpr std::uint64_t max64 = std::numeric_limits<std::uint64_t>::max();

constexpr std::array recordable{
    map_operation::find,     map_operation::insert,  map_operation::insert_or_assign, map_operation::erase,
    map_operation::exchange, map_operation::extract, map_operation::update,           map_operation::scan};

class trace_files : public ::testing::Test, protected test::temporary_folder {};

void write(const std::filesystem::path& to, std::span<const step> records) {
  io::output_file file(to);
  write_trace(file, records);
}

std::vector<step> parse(const std::string& text) {
  std::istringstream in(text);
  return read_trace(in, "ops");
}

std::string refusal_of_trace(const std::string& text) {
  return test::refusal([&] { return parse(text); });
}

TEST(read_trace, understands_every_operation_comments_and_blanks) {
  EXPECT_THAT(parse("# recorded yesterday\n"
                    "lookup 123\n"
                    "\n"
                    "  insert\t5 77   # the first\r\n"
                    "assign 5 0xFF\n"
                    "erase 0x5\n"
                    "exchange 6 1\n"
                    "extract 6\n"
                    "add 0x7 2\n"
                    "scan 18446744073709551615 100"),
              ElementsAre(step{map_operation::find, 123, 0}, step{map_operation::insert, 5, 77},
                          step{map_operation::insert_or_assign, 5, 255}, step{map_operation::erase, 5, 0},
                          step{map_operation::exchange, 6, 1}, step{map_operation::extract, 6, 0},
                          step{map_operation::update, 7, 2}, step{map_operation::scan, max64, 100}));
  EXPECT_THAT(parse(""), IsEmpty());
  EXPECT_THAT(parse("# nothing\n\n"), IsEmpty());
}

TEST(read_trace, names_line_finding_and_expectation) {
  EXPECT_EQ(refusal_of_trace("lookup 1\nlokup 2\n"),
            "ops:2: found unknown operation 'lokup'; expected lookup KEY, insert KEY VALUE, assign KEY "
            "VALUE, erase KEY, exchange KEY VALUE, extract KEY, add KEY AMOUNT or scan KEY COUNT");
  EXPECT_EQ(refusal_of_trace("\n# x\ninsert 5\n"),
            "ops:3: found 'insert' with 1 of 2 numbers; expected insert KEY VALUE");
  EXPECT_EQ(refusal_of_trace("lookup"), "ops:1: found 'lookup' with 0 of 1 numbers; expected lookup KEY");
  EXPECT_EQ(refusal_of_trace("exchange 5"),
            "ops:1: found 'exchange' with 1 of 2 numbers; expected exchange KEY VALUE");
  EXPECT_EQ(refusal_of_trace("add 5"), "ops:1: found 'add' with 1 of 2 numbers; expected add KEY AMOUNT");
  EXPECT_EQ(refusal_of_trace("extract 5 6"),
            "ops:1: found '6' after the end of the operation; expected extract KEY");
  EXPECT_EQ(refusal_of_trace("erase 5 6"),
            "ops:1: found '6' after the end of the operation; expected erase KEY");
  for (const auto* word : {"-1", "+1", "1.5", "0x", "0xg", "ten", "18446744073709551616", "1k"}) {
    EXPECT_EQ(refusal_of_trace(std::string("lookup ") + word),
              std::string("ops:1: found '") + word +
                  "'; expected an unsigned 64-bit number, decimal or 0x hexadecimal");
  }
  EXPECT_THAT(refusal_of_trace("LOOKUP 5"), HasSubstr("unknown operation 'LOOKUP'"));
  EXPECT_THAT(refusal_of_trace("\x1b[2J\xff"), HasSubstr("unknown operation '\\x1b[2J\\xff'"));
  EXPECT_THAT(refusal_of_trace(std::string(10'000, 'a')), HasSubstr('\'' + std::string(40, 'a') + "...'"));
}

TEST_F(trace_files, come_back_as_they_were_written) {
  random_generator random(1);
  std::vector<step> records{{map_operation::find, 0, 0}, {map_operation::insert, max64, max64}};
  for (int i = 0; i < 20'000; ++i) {
    const map_operation operation = recordable[random.below(recordable.size())];
    const bool has_argument = operation != map_operation::find && operation != map_operation::erase &&
                              operation != map_operation::extract;
    const std::uint64_t key = random.next() >> random.below(64);
    records.push_back({operation, key, has_argument ? random.next() : 0});
  }
  write(at("ops"), records);
  EXPECT_EQ(read_trace(at("ops")), records);
  write(at("ops"), {});
  EXPECT_THAT(read_trace(at("ops")), IsEmpty());
}

TEST_F(trace_files, hold_the_text_that_people_write) {
  const std::vector<step> records{{map_operation::find, 1, 0},
                                  {map_operation::insert, 2, 3},
                                  {map_operation::insert_or_assign, 2, 4},
                                  {map_operation::erase, 2, 0},
                                  {map_operation::exchange, 3, 1},
                                  {map_operation::update, 3, 2},
                                  {map_operation::extract, 3, 0},
                                  {map_operation::scan, 0, 9}};
  write(at("ops"), records);
  EXPECT_EQ(test::content_of(at("ops")),
            "lookup 1\ninsert 2 3\nassign 2 4\nerase 2\nexchange 3 1\nadd 3 2\nextract 3\nscan 0 9\n");
}

TEST_F(trace_files, hold_no_operation_without_a_form) {
  const std::vector<step> records{{map_operation::find, 1, 0}, {map_operation::contains, 1, 0}};
  EXPECT_EQ(test::refusal([&] { write(at("ops"), records); }),
            "a trace has no form of the operation contains");
  EXPECT_FALSE(std::filesystem::exists(at("ops")));
}

TEST_F(trace_files, name_the_file_in_errors) {
  put("bad", "lookup 1\nlookup x\n");
  EXPECT_THAT(test::refusal([&] { return read_trace(at("bad")); }),
              HasSubstr(at("bad").string() + ":2: found 'x'"));
  EXPECT_THAT(test::refusal<std::system_error>([&] { return read_trace(at("missing")); }),
              AllOf(HasSubstr(at("missing").string()), HasSubstr("No such file or directory")));
  EXPECT_THROW(read_trace(at(".")), std::system_error);
}

TEST_F(trace_files, of_a_recorder_follow_the_sequence_across_lanes) {
  trace_recorder recorder(2);
  recorder.lane_of(1).record({map_operation::find, 1, 0});
  recorder.lane_of(0).record({map_operation::insert, 2, 5});
  recorder.lane_of(1).record({map_operation::erase, 3, 0});
  io::output_file file(at("ops"));
  recorder.write(file);
  EXPECT_EQ(test::content_of(at("ops")), "lookup 1\ninsert 2 5\nerase 3\n");
  EXPECT_EQ(read_trace(at("ops")), recorder.steps());
}

TEST(trace_recorder, keeps_each_threads_order_and_every_record) {
  constexpr unsigned threads = 4;
  constexpr std::uint64_t each = 2000;
  trace_recorder recorder(threads, 16);
  std::vector<std::thread> running;
  running.reserve(threads);
  for (unsigned thread = 0; thread < threads; ++thread) {
    running.emplace_back([&recorder, thread] {
      auto& lane = recorder.lane_of(thread);
      for (std::uint64_t i = 0; i < each; ++i) lane.record({map_operation::insert, i, thread});
    });
  }
  for (auto& thread : running) thread.join();

  const auto records = recorder.steps();
  ASSERT_EQ(records.size(), threads * each);
  std::vector<std::uint64_t> next(threads);
  for (const auto& record : records) EXPECT_EQ(record.key, next.at(record.argument)++);
}

TEST(trace_recorder, refuses_no_threads_and_unknown_lanes) {
  EXPECT_THROW(trace_recorder(0), std::invalid_argument);
  trace_recorder recorder(1);
  EXPECT_THROW(recorder.lane_of(1), std::out_of_range);
}

using test::refusal;

class permutation_of_size : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(permutation_of_size, is_bijective_for_every_seed) {
  const auto size = GetParam();
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    const permutation shuffled(size, seed);
    EXPECT_EQ(shuffled.size(), size);
    std::vector<bool> hit(size);
    for (std::uint64_t i = 0; i < size; ++i) {
      const auto image = shuffled(i);
      ASSERT_LT(image, size);
      ASSERT_FALSE(hit[image]) << "twice " << image << " with seed " << seed;
      hit[image] = true;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(sizes, permutation_of_size,
                         ::testing::Values(1, 2, 3, 4, 5, 7, 8, 1000, 1024, 65535, 65536, 65537));

TEST(permutation, reaches_every_place_from_every_place) {
  // Over many seeds the image of each element of a small range is uniform.
  for (std::uint64_t element = 0; element < 7; ++element) {
    std::vector<std::uint64_t> seen(7);
    for (std::uint64_t seed = 0; seed < 7000; ++seed) ++seen.at(permutation(7, seed)(element));
    EXPECT_PRED_FORMAT2(fits, seen, std::vector<double>(7, 1)) << "element " << element << ": ";
  }
}

TEST(permutation, has_a_random_first_half) {
  const permutation shuffled(100'003, 5);
  std::vector<std::uint64_t> by_tenth(10);
  std::uint64_t rising = 0;
  for (std::uint64_t i = 0; i < 50'000; ++i) {
    ++by_tenth.at(shuffled(i) / 10'001);
    if (shuffled(i) < shuffled(i + 1)) ++rising;
  }
  EXPECT_PRED_FORMAT2(fits, by_tenth, std::vector<double>(10, 1));
  EXPECT_NEAR(static_cast<double>(rising), 25'000, 500);  // 7 standard deviations of a random order
}

TEST(permutation, differs_by_seed_and_repeats) {
  const permutation one(1000, 1);
  const permutation again(1000, 1);
  const permutation two(1000, 2);
  std::uint64_t equal = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(one(i), again(i));
    if (one(i) == two(i)) ++equal;
  }
  EXPECT_LT(equal, 12U);  // 1 on average
}

TEST(permutation, covers_sizes_up_to_the_whole_word) {
  for (const std::uint64_t size : {std::uint64_t{1} << 32, (std::uint64_t{1} << 63) + 1, max64}) {
    const permutation shuffled(size, 9);
    std::unordered_set<std::uint64_t> images;
    std::uint64_t upper_half = 0;
    for (std::uint64_t i = 0; i < 4000; ++i) {
      const auto image = shuffled(i % 2 == 0 ? i : size - i);
      ASSERT_LT(image, size);
      images.insert(image);
      if (image >= size / 2) ++upper_half;
    }
    EXPECT_EQ(images.size(), 4000U);
    EXPECT_NEAR(static_cast<double>(upper_half), 2000, 200);
  }
}

TEST(permutation, refuses_no_elements) {
  EXPECT_THAT(refusal([] { permutation(0, 1); }), HasSubstr("at least 1"));
}

TEST(key_space, gives_the_index_itself_in_sequential_order) {
  const key_space keys(key_order::sequential, 10);
  for (const std::uint64_t i : {0U, 9U, 10U}) EXPECT_EQ(keys.key(i), i);
  EXPECT_EQ(keys.size(), 10U);
}

TEST(key_space, scatters_scrambled_keys_over_the_whole_domain_without_repeats) {
  const key_space keys(key_order::scrambled, 100'000, 3);
  std::unordered_set<std::uint64_t> distinct;
  std::vector<std::uint64_t> by_sixteenth(16);
  for (std::uint64_t i = 0; i < keys.size(); ++i) {
    distinct.insert(keys.key(i));
    ++by_sixteenth.at(keys.key(i) >> 60);
  }
  EXPECT_EQ(distinct.size(), 100'000U);
  EXPECT_PRED_FORMAT2(fits, by_sixteenth, std::vector<double>(16, 1));
  EXPECT_NE(keys.key(1), key_space(key_order::scrambled, 100'000, 4).key(1));
  EXPECT_EQ(keys.key(1), key_space(key_order::scrambled, 5, 3).key(1));
}

TEST(key_space, keeps_an_explicit_list_in_its_order) {
  const key_space keys({max64, 0, 17});
  EXPECT_EQ(keys.order(), key_order::explicit_list);
  EXPECT_EQ(keys.size(), 3U);
  EXPECT_EQ(keys.key(0), max64);
  EXPECT_EQ(keys.key(1), 0U);
  EXPECT_EQ(keys.key(2), 17U);
}

TEST(key_space, refuses_what_is_no_injective_map) {
  EXPECT_THAT(refusal([] { key_space(key_order::sequential, 0); }), HasSubstr("at least 1"));
  EXPECT_THAT(refusal([] { key_space(key_order::explicit_list, 3); }), HasSubstr("from its keys"));
  EXPECT_THAT(refusal([] { key_space(std::vector<std::uint64_t>{}); }), HasSubstr("at least one key"));
  EXPECT_THAT(refusal([] { key_space(std::vector<std::uint64_t>{5, 6, 5}); }),
              HasSubstr("key 5 occurs more than once"));
}

TEST(key_space, numbers_strings_for_their_codec) {
  auto list = std::make_shared<string_list>();
  EXPECT_THAT(refusal([&] { static_cast<void>(key_space(list)); }), HasSubstr("at least one key"));
  list->text = "https://example.org/ba";
  list->keys = {std::string_view(list->text).substr(0, 21), "a"};
  const key_space keys(list);
  EXPECT_EQ(keys.type(), key_type::string);
  EXPECT_EQ(keys.order(), key_order::explicit_list);
  EXPECT_EQ(keys.size(), 2U);
  EXPECT_EQ(catalog::listed_string_codec::encode_key(keys.key(0)), "https://example.org/b");
  EXPECT_EQ(catalog::listed_string_codec::encode_key(keys.key(1)), "a");
  EXPECT_EQ(key_space(key_order::sequential, 1).type(), key_type::integer);
}

TEST(key_order, round_trips_through_text) {
  for (const auto order : {key_order::sequential, key_order::scrambled}) {
    EXPECT_EQ(parse_key_order(to_string(order)), order);
  }
  EXPECT_EQ(to_string(key_order::explicit_list), "explicit");
  EXPECT_THAT(refusal([] { parse_key_order("random"); }), HasSubstr("expected sequential or scrambled"));
}

TEST(share_of, splits_without_gap_or_overlap) {
  for (const std::uint64_t total : {std::uint64_t{0}, std::uint64_t{3}, std::uint64_t{100}, max64}) {
    std::uint64_t next = 0;
    for (unsigned thread = 0; thread < 7; ++thread) {
      const auto share = share_of(total, thread, 7);
      EXPECT_EQ(share.begin, next);
      EXPECT_GE(share.end - share.begin, total / 7);
      EXPECT_LE(share.end - share.begin, total / 7 + 1);
      next = share.end;
    }
    EXPECT_EQ(next, total);
  }
  EXPECT_EQ(share_of(10, 1, 4), (index_range{2, 5}));
}

class key_files : public ::testing::Test, protected test::temporary_folder {
 protected:
  void write_at_time(const std::string& name, std::int64_t seconds, std::int64_t nanoseconds) const {
    const auto file = put(name, "x");
    const std::array<timespec, 2> times{{{seconds, nanoseconds}, {seconds, nanoseconds}}};
    ASSERT_EQ(::utimensat(AT_FDCWD, file.c_str(), times.data(), 0), 0);
  }

  [[nodiscard]] std::string refusal(const std::string& name, const std::string& content) const {
    return test::refusal([&] { return load_key_file(put(name, content)); });
  }
};

std::string little_endian(std::initializer_list<std::uint64_t> keys) {
  std::string bytes;
  for (auto key : keys) {
    for (int i = 0; i < 8; ++i, key >>= 8) bytes += static_cast<char>(key & 0xff);
  }
  return bytes;
}

TEST_F(key_files, of_text_hold_a_number_a_line) {
  const auto list =
      load_key_file(put("keys", "# taken from the log\n17\n\n  0 \t\r\n18446744073709551615 # top"));
  EXPECT_THAT(list.keys, ElementsAre(17, 0, max64));
  EXPECT_EQ(list.duplicates, 0U);
  EXPECT_EQ(list.format, key_file_format::text);
}

TEST_F(key_files, of_words_are_known_by_name_or_by_content) {
  const auto bytes = little_endian({1, 0x0102030405060708, max64});
  for (const auto* name : {"keys.u64", "keys.bin", "keys", "keys.dat"}) {
    const auto list = load_key_file(put(name, bytes));
    EXPECT_THAT(list.keys, ElementsAre(1, 0x0102030405060708, max64)) << name;
    EXPECT_EQ(list.format, key_file_format::binary) << name;
  }
  // Eight digits are text by content, and one word by name.
  EXPECT_THAT(load_key_file(put("digits", "12345678")).keys, ElementsAre(12345678));
  EXPECT_THAT(load_key_file(put("digits.u64", "12345678")).keys, ElementsAre(0x3837363534333231));
}

TEST_F(key_files, lose_duplicates_but_keep_the_order_of_first_occurrence) {
  const auto text = load_key_file(put("keys", "5\n3\n5\n9\n3\n5\n"));
  EXPECT_THAT(text.keys, ElementsAre(5, 3, 9));
  EXPECT_EQ(text.duplicates, 3U);
  const auto binary = load_key_file(put("keys.u64", little_endian({7, 7, 1})));
  EXPECT_THAT(binary.keys, ElementsAre(7, 1));
  EXPECT_EQ(binary.duplicates, 1U);
}

TEST_F(key_files, name_the_line_that_is_no_key) {
  for (const auto* bad : {"-5", "+5", "0x10", "5 6", "five", "1.5", "18446744073709551616"}) {
    EXPECT_EQ(refusal("keys", std::string("1\n") + bad + "\n3\n"),
              at("keys").string() + ":2: found '" + bad + "'; expected one unsigned 64-bit decimal number");
  }
  std::string late;  // beyond the bytes that decide between text and binary
  for (int i = 0; i < 5000; ++i) late += std::to_string(i) + "\n";
  EXPECT_THAT(refusal("keys", late + "\x01\n"), HasSubstr(":5001: found"));
}

TEST_F(key_files, of_strings_hold_a_string_a_line) {
  const auto file = put("keys", "b c#d\r\n\n12\na\n12\n\xc3\xa9\n#");
  const auto list = load_key_file(file, key_type::string);
  EXPECT_THAT(list.strings->keys, ElementsAre("b c#d", "12", "a", "\xc3\xa9", "#"));
  EXPECT_EQ(list.duplicates, 1U);
  EXPECT_THAT(list.keys, IsEmpty());
  // The name and eight bytes do not make words of them.
  EXPECT_THAT(load_key_file(put("keys.u64", "\xc3\xa9 text\n"), key_type::string).strings->keys,
              ElementsAre("\xc3\xa9 text"));
  EXPECT_THAT(test::refusal([&] { load_key_file(put("keys", "\n\r\n"), key_type::string); }),
              HasSubstr("holds no key"));
}

TEST_F(key_files, without_a_type_have_that_of_their_first_key) {
  const auto load = [&](const std::string& content) {
    return load_key_file(put("keys", content), std::nullopt);
  };
  EXPECT_THAT(load("# a comment\n\n 7 # of the log\n8\n").keys, ElementsAre(7, 8));
  EXPECT_THAT(load("/usr/bin\n7\n").strings->keys, ElementsAre("/usr/bin", "7"));
  EXPECT_THAT(load("-7\n8\n").strings->keys, ElementsAre("-7", "8"));
  EXPECT_THAT(load(little_endian({1, 2})).keys, ElementsAre(1, 2));
  EXPECT_THAT(test::refusal([&] { load("7\n/usr/bin\n"); }),
              AllOf(HasSubstr(":2: found '/usr/bin'"), HasSubstr("--key-type string")));
}

TEST_F(key_files, that_are_neither_or_empty_are_refused) {
  EXPECT_THAT(refusal("keys", std::string("\0\1\2", 3)), HasSubstr("has 3 bytes that are not text"));
  EXPECT_THAT(refusal("keys.u64", "1\n2\n3"), HasSubstr("has 5 bytes; expected a multiple of 8"));
  for (const auto* name : {"keys", "keys.u64"}) EXPECT_THAT(refusal(name, ""), HasSubstr("holds no key"));
  EXPECT_THAT(refusal("keys", "# nothing\n\n"), HasSubstr("holds no key"));
  EXPECT_THROW(load_key_file(at("missing")), std::system_error);
  EXPECT_THROW(load_key_file(at(".")), std::system_error);
}

TEST_F(key_files, under_a_directory_give_their_times_in_the_order_of_their_paths) {
  write_at_time("b", 2, 1);
  write_at_time("a/z", 1, 999'999'999);
  write_at_time("a/deep/er", 1'700'000'000, 123'456'789);
  write_at_time("ab", 2, 1);  // the same time as b, whose turn comes later
  write_at_time("a.x", 7, 0);
  EXPECT_THAT(file_times_under(at("."), 100),
              ElementsAre(1'700'000'000'123'456'789, 1'999'999'999, 7'000'000'000, 2'000'000'001));
  EXPECT_THAT(file_times_under(at("."), 2), ElementsAre(1'700'000'000'123'456'789, 1'999'999'999));
  EXPECT_THAT(file_times_under(at("."), 0), IsEmpty());
}

TEST_F(key_files, under_a_directory_are_not_reached_through_links_or_closed_doors) {
  write_at_time("tree/file", 3, 0);
  write_at_time("outside/file", 4, 0);
  std::filesystem::create_symlink(at("outside/file"), at("tree/link"));
  std::filesystem::create_directory_symlink(at("outside"), at("tree/folder_link"));
  std::filesystem::create_symlink(at("nowhere"), at("tree/dangling"));
  ASSERT_EQ(::mkfifo(at("tree/pipe").c_str(), 0600), 0);
  EXPECT_THAT(file_times_under(at("tree"), 100), ElementsAre(3'000'000'000));

  write_at_time("tree/closed/file", 5, 0);
  std::filesystem::permissions(at("tree/closed"), std::filesystem::perms::none);
  const auto times = file_times_under(at("tree"), 100);
  std::filesystem::permissions(at("tree/closed"), std::filesystem::perms::owner_all);
  if (::geteuid() == 0) {  // for whom no door is closed
    EXPECT_THAT(times, ElementsAre(5'000'000'000, 3'000'000'000));
  } else {
    EXPECT_THAT(times, ElementsAre(3'000'000'000));
  }
}

TEST_F(key_files, under_what_is_no_directory_are_refused) {
  const auto file = put("file", "1\n");
  EXPECT_THROW(file_times_under(file, 1), std::invalid_argument);
  EXPECT_THROW(file_times_under(at("missing"), 1), std::invalid_argument);
}

}  // namespace
}  // namespace espalier::workload
