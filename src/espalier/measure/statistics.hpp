#pragma once

// Summary figures of repeated measurements. A figure that the values do not define is std::nullopt.

#include <optional>
#include <span>

namespace espalier::measure {

/// For no values all of these are std::nullopt. The order of the values does not matter; NaN must not occur.
std::optional<double> minimum(std::span<const double> values);
std::optional<double> maximum(std::span<const double> values);
std::optional<double> mean(std::span<const double> values);
std::optional<double> median(std::span<const double> values);

/// Of the sample, with n - 1 in the denominator; needs two values.
std::optional<double> stddev(std::span<const double> values);

/// stddev divided by the magnitude of the mean, which must not be 0.
std::optional<double> coefficient_of_variation(std::span<const double> values);

/// Throws std::invalid_argument if a value is not positive.
std::optional<double> geometric_mean(std::span<const double> values);

}  // namespace espalier::measure
