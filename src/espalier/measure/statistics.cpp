#include "espalier/measure/statistics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

namespace espalier::measure {

namespace {

double mean_of(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

}  // namespace

std::optional<double> minimum(std::span<const double> values) {
  if (values.empty()) return std::nullopt;
  return *std::min_element(values.begin(), values.end());
}

std::optional<double> maximum(std::span<const double> values) {
  if (values.empty()) return std::nullopt;
  return *std::max_element(values.begin(), values.end());
}

std::optional<double> mean(std::span<const double> values) {
  if (values.empty()) return std::nullopt;
  return mean_of(values);
}

std::optional<double> median(std::span<const double> values) {
  if (values.empty()) return std::nullopt;
  std::vector<double> ordered(values.begin(), values.end());
  std::sort(ordered.begin(), ordered.end());
  return std::lerp(ordered[(ordered.size() - 1) / 2], ordered[ordered.size() / 2], 0.5);
}

std::optional<double> stddev(std::span<const double> values) {
  if (values.size() < 2) return std::nullopt;
  const double center = mean_of(values);
  double sum = 0;  // of squares about the mean: in one pass, squares of large close values would cancel
  for (const double value : values) sum += (value - center) * (value - center);
  return std::sqrt(sum / static_cast<double>(values.size() - 1));
}

std::optional<double> coefficient_of_variation(std::span<const double> values) {
  const auto spread = stddev(values);
  const auto center = mean(values);
  if (!spread || !center || *center == 0) return std::nullopt;
  return *spread / std::abs(*center);
}

std::optional<double> geometric_mean(std::span<const double> values) {
  if (values.empty()) return std::nullopt;
  double sum = 0;
  for (const double value : values) {
    if (!(value > 0)) {
      throw std::invalid_argument(
          fmt::format("a geometric mean over the value {}; all values must be positive", value));
    }
    sum += std::log(value);
  }
  return std::exp(sum / static_cast<double>(values.size()));
}

}  // namespace espalier::measure
