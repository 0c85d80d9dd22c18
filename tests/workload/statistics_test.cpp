#include "espalier/workload/statistics.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <vector>

namespace espalier::workload {
namespace {

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

}  // namespace
}  // namespace espalier::workload
