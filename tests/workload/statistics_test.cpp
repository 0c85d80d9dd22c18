// Medians, spreads and histograms.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "espalier/workload/histogram.hpp"
#include "espalier/workload/random.hpp"
#include "espalier/workload/statistics.hpp"

namespace espalier::workload {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

using reals = std::vector<double>;

TEST(statistics, are_absent_for_no_values) {
  const reals none;
  EXPECT_EQ(minimum(none), std::nullopt);
  EXPECT_EQ(maximum(none), std::nullopt);
  EXPECT_EQ(mean(none), std::nullopt);
  EXPECT_EQ(median(none), std::nullopt);
  EXPECT_EQ(stddev(none), std::nullopt);
  EXPECT_EQ(coefficient_of_variation(none), std::nullopt);
  EXPECT_EQ(quantile(none, 0.5), std::nullopt);
  EXPECT_EQ(quartiles(none), std::nullopt);
  EXPECT_EQ(geometric_mean(none), std::nullopt);
  EXPECT_EQ(ratio_of_medians(none, reals{1}), std::nullopt);
  EXPECT_EQ(ratio_of_medians(reals{1}, none), std::nullopt);
}

TEST(statistics, of_a_small_sample) {
  const reals values{9, 2, 4, 4, 5, 4, 7, 5};
  EXPECT_EQ(minimum(values), 2);
  EXPECT_EQ(maximum(values), 9);
  EXPECT_EQ(mean(values), 5);
  EXPECT_EQ(median(values), 4.5);
  EXPECT_DOUBLE_EQ(stddev(values).value_or(0), std::sqrt(32.0 / 7));
  EXPECT_DOUBLE_EQ(coefficient_of_variation(values).value_or(0), std::sqrt(32.0 / 7) / 5);
}

TEST(statistics, of_one_value_have_no_spread) {
  const reals one{3};
  EXPECT_EQ(median(one), 3);
  EXPECT_EQ(quartiles(one), (quartile_values{3, 3, 3}));
  EXPECT_EQ(stddev(one), std::nullopt);
  EXPECT_EQ(coefficient_of_variation(one), std::nullopt);
}

TEST(statistics, quartiles_interpolate_between_neighbours) {
  EXPECT_EQ(quartiles(reals{4, 1, 3, 2}), (quartile_values{1.75, 2.5, 3.25}));
  EXPECT_EQ(quartiles(reals{5, 1, 4, 2, 3}), (quartile_values{2, 3, 4}));
  EXPECT_EQ(quantile(reals{30, 10, 20}, 0), 10);
  EXPECT_EQ(quantile(reals{30, 10, 20}, 1), 30);
  EXPECT_EQ(quantile(reals{30, 10, 20}, 0.75), 25);
  EXPECT_THROW(quantile(reals{1}, 1.01), std::invalid_argument);
  EXPECT_THROW(quantile(reals{1}, std::nan("")), std::invalid_argument);
}

TEST(statistics, spread_survives_a_large_offset) {
  EXPECT_DOUBLE_EQ(stddev(reals{1e9 + 4, 1e9 + 7, 1e9 + 13, 1e9 + 16}).value_or(0), std::sqrt(30));
}

TEST(statistics, variation_is_relative_to_the_magnitude_of_the_mean) {
  EXPECT_DOUBLE_EQ(coefficient_of_variation(reals{-1, -3}).value_or(0), std::sqrt(2) / 2);
  EXPECT_EQ(coefficient_of_variation(reals{-1, 1}), std::nullopt);
}

TEST(statistics, geometric_mean_multiplies) {
  EXPECT_DOUBLE_EQ(geometric_mean(reals{1, 4, 16}).value_or(0), 4);
  EXPECT_NEAR(geometric_mean(reals{1e300, 1e300, 1e300}).value_or(0) / 1e300, 1, 1e-12);
  EXPECT_THROW(geometric_mean(reals{1, 0}), std::invalid_argument);
  EXPECT_THROW(geometric_mean(reals{1, -2}), std::invalid_argument);
}

TEST(statistics, ratio_compares_medians_not_means) {
  EXPECT_EQ(ratio_of_medians(reals{1, 6, 1000}, reals{3, 2, 2}), 3);
  EXPECT_EQ(ratio_of_medians(reals{1}, reals{0}), std::nullopt);
}

// Spread evenly over the orders of magnitude, as latencies are.
std::vector<std::uint64_t> logarithmic_values(std::size_t count, std::uint64_t seed) {
  random_generator random(seed);
  std::vector<std::uint64_t> values(count);
  for (auto& value : values) value = static_cast<std::uint64_t>(std::exp2(random.unit() * 40));
  return values;
}

TEST(histogram, knows_nothing_while_empty) {
  const histogram empty;
  EXPECT_EQ(empty.count(), 0U);
  EXPECT_EQ(empty.min(), std::nullopt);
  EXPECT_EQ(empty.max(), std::nullopt);
  EXPECT_EQ(empty.mean(), std::nullopt);
  EXPECT_EQ(empty.stddev(), std::nullopt);
  EXPECT_EQ(empty.value_at(0.5), std::nullopt);
  EXPECT_THAT(empty.percentiles(), IsEmpty());
}

TEST(histogram, is_exact_for_small_values) {
  histogram values;
  for (std::uint64_t value = 1; value <= 100; ++value) values.record(value);
  EXPECT_EQ(values.count(), 100U);
  EXPECT_EQ(values.min(), 1U);
  EXPECT_EQ(values.max(), 100U);
  EXPECT_DOUBLE_EQ(values.mean().value_or(0), 50.5);
  EXPECT_DOUBLE_EQ(values.stddev().value_or(0), std::sqrt(833.25));  // (100^2 - 1) / 12
  EXPECT_EQ(values.value_at(0), 1U);
  for (std::uint64_t percent = 1; percent <= 100; ++percent) {
    EXPECT_EQ(values.value_at(static_cast<double>(percent) / 100), percent);
  }
  EXPECT_EQ(values.value_at(0.995), 100U);
}

class histogram_digits : public ::testing::TestWithParam<unsigned> {};

TEST_P(histogram_digits, bounds_the_relative_error_of_every_value) {
  const unsigned digits = GetParam();
  const double bound = 1 + std::pow(10, -static_cast<double>(digits));
  auto values = logarithmic_values(200, digits);
  for (unsigned power = 0; power <= 40; ++power) {  // both sides of each border between resolutions
    values.push_back(std::uint64_t{1} << power);
    values.push_back((std::uint64_t{1} << power) - 1);
  }
  histogram one(digits);
  for (const auto value : values) {
    one.reset();
    one.record(value);
    one.record(histogram::highest_value);  // so that the maximum does not hide the bucket
    const auto reported = one.value_at(0.5).value_or(0);
    EXPECT_GE(reported, value);
    EXPECT_LE(static_cast<double>(reported), static_cast<double>(value) * bound) << digits << " digits";
  }
}

TEST_P(histogram_digits, agrees_with_the_sorted_values) {
  const unsigned digits = GetParam();
  const double bound = std::pow(10, -static_cast<double>(digits));
  auto values = logarithmic_values(20'001, 11);
  histogram recorded(digits);
  double sum = 0;
  for (const auto value : values) {
    recorded.record(value);
    sum += static_cast<double>(value);
  }
  std::sort(values.begin(), values.end());
  for (const double fraction : {0.0, 0.001, 0.1, 0.25, 0.5, 0.9, 0.99, 0.9999}) {
    const auto rank = std::max(1.0, std::ceil(fraction * static_cast<double>(values.size())));
    const auto exact = values[static_cast<std::size_t>(rank) - 1];
    const auto reported = recorded.value_at(fraction).value_or(0);
    EXPECT_GE(reported, exact);
    EXPECT_LE(static_cast<double>(reported), static_cast<double>(exact) * (1 + bound));
  }
  EXPECT_EQ(recorded.value_at(1), values.back());
  EXPECT_EQ(recorded.min(), values.front());
  const double mean = sum / static_cast<double>(values.size());
  EXPECT_NEAR(recorded.mean().value_or(0) / mean, 1, bound);
}

INSTANTIATE_TEST_SUITE_P(digits, histogram_digits, ::testing::Values(1, 2, 3, 4));

TEST(histogram, saturates_at_the_top_and_keeps_the_exact_maximum) {
  histogram values;
  values.record(5);
  values.record(histogram::highest_value);
  values.record(histogram::highest_value + 1);
  values.record(~std::uint64_t{0});
  EXPECT_EQ(values.count(), 4U);
  EXPECT_EQ(values.value_at(0.25), 5U);
  EXPECT_EQ(values.value_at(0.5), histogram::highest_value);
  EXPECT_EQ(values.value_at(0.99), histogram::highest_value);
  EXPECT_EQ(values.value_at(1), ~std::uint64_t{0});
  EXPECT_EQ(values.max(), ~std::uint64_t{0});
}

TEST(histogram, records_zero_and_several_at_once) {
  histogram values;
  values.record(0);
  values.record(7, 3);
  values.record(900, 0);
  EXPECT_EQ(values.count(), 4U);
  EXPECT_EQ(values.min(), 0U);
  EXPECT_EQ(values.max(), 7U);
  EXPECT_EQ(values.value_at(0.25), 0U);
  EXPECT_EQ(values.value_at(0.26), 7U);
}

TEST(histogram, merges_into_what_one_histogram_would_hold) {
  histogram whole;
  histogram odd;
  histogram even;
  for (const auto value : logarithmic_values(5000, 12)) {
    whole.record(value);
    (value % 2 == 0 ? even : odd).record(value);
  }
  histogram merged;
  merged.merge(odd);
  merged.merge(even);
  merged.merge(histogram());
  EXPECT_EQ(merged.percentiles(), whole.percentiles());
  EXPECT_EQ(merged.count(), 5000U);
  EXPECT_EQ(merged.min(), whole.min());
  EXPECT_EQ(merged.max(), whole.max());
  EXPECT_EQ(merged.stddev(), whole.stddev());

  merged.reset();
  EXPECT_EQ(merged.count(), 0U);
  EXPECT_EQ(merged.max(), std::nullopt);
  EXPECT_EQ(merged.value_at(0.5), std::nullopt);
}

TEST(histogram, gives_a_curve_that_grows_denser_towards_the_top) {
  histogram values;
  values.record(10);
  values.record(20, 2);
  values.record(30);
  EXPECT_THAT(values.curve(1),
              ElementsAre(Pair(0.0, 10U), Pair(0.5, 20U), Pair(0.75, 20U), Pair(0.875, 30U), Pair(1.0, 30U)));

  histogram many;
  for (const auto value : logarithmic_values(50'000, 13)) many.record(value);
  const auto curve = many.curve();
  EXPECT_TRUE(std::is_sorted(curve.begin(), curve.end()));
  EXPECT_GT(curve.size(), 50U);
  EXPECT_EQ(curve.back(), std::pair(1.0, many.max().value_or(0)));
  for (const auto& [fraction, value] : curve) EXPECT_EQ(many.value_at(fraction), value) << fraction;
}

TEST(histogram, writes_the_text_of_the_hdr_tools) {
  histogram values;
  values.record(10);
  values.record(20, 2);
  values.record(30);
  EXPECT_EQ(values.hgrm(),
            "       Value     Percentile TotalCount 1/(1-Percentile)\n"
            "\n"
            "       10.00 0.000000000000          1           1.00\n"
            "       10.00 0.100000000000          1           1.11\n"
            "       10.00 0.200000000000          1           1.25\n"
            "       20.00 0.300000000000          3           1.43\n"
            "       20.00 0.400000000000          3           1.67\n"
            "       20.00 0.500000000000          3           2.00\n"
            "       20.00 0.550000000000          3           2.22\n"
            "       20.00 0.600000000000          3           2.50\n"
            "       20.00 0.650000000000          3           2.86\n"
            "       20.00 0.700000000000          3           3.33\n"
            "       20.00 0.750000000000          3           4.00\n"
            "       30.00 0.775000000000          4           4.44\n"
            "       30.00 1.000000000000          4\n"
            "#[Mean    =        20.00, StdDeviation   =         7.07]\n"
            "#[Max     =        30.00, Total count    =            4]\n"
            "#[Buckets =           34, SubBuckets     =          256]\n");
}

TEST(histogram, writes_text_in_larger_units_and_of_nothing) {
  histogram one(3);
  one.record(1500);
  EXPECT_EQ(one.hgrm(1000, 1),
            "       Value     Percentile TotalCount 1/(1-Percentile)\n"
            "\n"
            "       1.500 0.000000000000          1           1.00\n"
            "       1.500 1.000000000000          1\n"
            "#[Mean    =        1.500, StdDeviation   =        0.000]\n"
            "#[Max     =        1.500, Total count    =            1]\n"
            "#[Buckets =           31, SubBuckets     =         2048]\n");
  EXPECT_EQ(histogram().hgrm(),
            "       Value     Percentile TotalCount 1/(1-Percentile)\n"
            "\n"
            "#[Mean    =         0.00, StdDeviation   =         0.00]\n"
            "#[Max     =         0.00, Total count    =            0]\n"
            "#[Buckets =           34, SubBuckets     =          256]\n");
}

TEST(histogram, refuses_bad_arguments) {
  EXPECT_THROW(histogram(0), std::invalid_argument);
  EXPECT_THROW(histogram(6), std::invalid_argument);
  histogram values;
  EXPECT_THROW(values.merge(histogram(3)), std::invalid_argument);
  EXPECT_THROW((void)values.value_at(-0.1), std::invalid_argument);
  EXPECT_THROW((void)values.value_at(1.1), std::invalid_argument);
  EXPECT_THROW((void)values.value_at(std::nan("")), std::invalid_argument);
  EXPECT_THROW((void)values.percentiles(0), std::invalid_argument);
  EXPECT_THROW((void)values.hgrm(0), std::invalid_argument);
}

}  // namespace
}  // namespace espalier::workload
