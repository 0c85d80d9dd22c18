#include "espalier/workload/statistics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

namespace espalier::workload {

namespace {

std::vector<double> sorted(std::span<const double> values) {
  std::vector<double> copy(values.begin(), values.end());
  std::sort(copy.begin(), copy.end());
  return copy;
}

double mean_of(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double interpolate(const std::vector<double>& ordered, double fraction) {
  const double position = fraction * static_cast<double>(ordered.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const auto above = std::min(below + 1, ordered.size() - 1);
  return std::lerp(ordered[below], ordered[above], position - std::floor(position));
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

std::optional<double> median(std::span<const double> values) { return quantile(values, 0.5); }

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

std::optional<double> quantile(std::span<const double> values, double fraction) {
  if (!(fraction >= 0 && fraction <= 1)) {
    throw std::invalid_argument(
        fmt::format("a quantile at fraction {}; it must lie between 0 and 1", fraction));
  }
  if (values.empty()) return std::nullopt;
  return interpolate(sorted(values), fraction);
}

std::optional<quartile_values> quartiles(std::span<const double> values) {
  if (values.empty()) return std::nullopt;
  const auto ordered = sorted(values);
  return quartile_values{interpolate(ordered, 0.25), interpolate(ordered, 0.5), interpolate(ordered, 0.75)};
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

std::optional<double> ratio_of_medians(std::span<const double> numerators,
                                       std::span<const double> denominators) {
  const auto above = median(numerators);
  const auto below = median(denominators);
  if (!above || !below || *below == 0) return std::nullopt;
  return *above / *below;
}

}  // namespace espalier::workload
