#include "espalier/measure/histogram.hpp"

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

namespace espalier::measure {

namespace {

unsigned sub_bits_for(unsigned digits) {
  if (digits < 1 || digits > 5) {
    throw std::invalid_argument(
        fmt::format("a histogram of {} significant digits; 1 to 5 are possible", digits));
  }
  std::uint64_t needed = 2;
  for (unsigned i = 0; i < digits; ++i) needed *= 10;
  return static_cast<unsigned>(std::bit_width(needed - 1));
}

}  // namespace

histogram::histogram(unsigned significant_digits)
    : digits_(significant_digits),
      sub_bits_(sub_bits_for(significant_digits)),
      half_(std::uint64_t{1} << (sub_bits_ - 1)),
      counts_(index_of(highest_value) + half_) {}

void histogram::merge(const histogram& other) {
  if (digits_ != other.digits_) {
    throw std::invalid_argument(
        fmt::format("merging histograms of {} and {} significant digits; both must have the same number",
                    digits_, other.digits_));
  }
  for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
  count_ += other.count_;
  min_ = std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
}

void histogram::reset() noexcept {
  std::fill(counts_.begin(), counts_.end(), 0);
  count_ = 0;
  min_ = std::numeric_limits<std::uint64_t>::max();
  max_ = 0;
}

histogram::bucket histogram::bucket_at(std::size_t index) const noexcept {
  const std::uint64_t shift = index < 2 * half_ ? 0 : index / half_ - 1;
  const std::uint64_t lowest = (index - shift * half_) << shift;
  return {lowest, lowest + (std::uint64_t{1} << shift) - 1};
}

// The top of the bucket, but never above the largest recorded value. The last bucket stands for highest_value alone.
// Larger values are counted there too, which shows only in max().
std::uint64_t histogram::reported_value(std::size_t index) const noexcept {
  if (index >= index_of(highest_value)) return highest_value;
  return std::min(bucket_at(index).highest, max_);
}

std::optional<std::uint64_t> histogram::min() const noexcept {
  if (count_ == 0) return std::nullopt;
  return min_;
}

std::optional<std::uint64_t> histogram::max() const noexcept {
  if (count_ == 0) return std::nullopt;
  return max_;
}

std::optional<double> histogram::mean() const noexcept {
  if (count_ == 0) return std::nullopt;
  double sum = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    const auto [lowest, highest] = bucket_at(i);
    sum += static_cast<double>(counts_[i]) * (static_cast<double>(lowest + highest) / 2);
  }
  return sum / static_cast<double>(count_);
}

std::optional<double> histogram::stddev() const noexcept {
  const auto center = mean();
  if (!center) return std::nullopt;
  double sum = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    const auto [lowest, highest] = bucket_at(i);
    const double distance = static_cast<double>(lowest + highest) / 2 - *center;
    sum += static_cast<double>(counts_[i]) * distance * distance;
  }
  return std::sqrt(sum / static_cast<double>(count_));
}

std::optional<std::uint64_t> histogram::value_at(double fraction) const {
  if (!(fraction >= 0 && fraction <= 1)) {
    throw std::invalid_argument(
        fmt::format("a percentile at fraction {}; it must lie between 0 and 1", fraction));
  }
  if (count_ == 0) return std::nullopt;
  if (fraction == 1) return max_;
  // One step down first, so that 0.07 of 100 records is 7 of them although 0.07 * 100 exceeds 7.
  const double wanted = std::ceil(std::nextafter(fraction, 0.0) * static_cast<double>(count_));
  const auto rank = std::clamp<std::uint64_t>(static_cast<std::uint64_t>(wanted), 1, count_);
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    seen += counts_[i];
    if (seen >= rank) return reported_value(i);
  }
  return max_;
}

std::vector<histogram::percentile_point> histogram::percentiles(unsigned ticks) const {
  if (ticks == 0) throw std::invalid_argument("a percentile curve of 0 ticks; at least 1 is needed");
  std::vector<percentile_point> points;
  if (count_ == 0) return points;
  const auto total = static_cast<double>(count_);
  double level = 0;  // in percent, as the tools count, so that rounding agrees with them
  std::uint64_t seen = 0;
  for (std::size_t i = 0; seen < count_; ++i) {
    if (counts_[i] == 0) continue;
    seen += counts_[i];
    // The last value gets one point at the first level that it reaches; the closing point below follows.
    while (100 * static_cast<double>(seen) / total >= level) {
      points.push_back({level / 100, reported_value(i), seen});
      const double halvings = std::floor(std::log2(100 / (100 - level))) + 1;
      level += 100 / (ticks * std::exp2(halvings));
      if (seen == count_) break;
    }
  }
  points.push_back({1, max_, count_});
  return points;
}

std::vector<std::pair<double, std::uint64_t>> histogram::curve(unsigned ticks) const {
  std::vector<std::pair<double, std::uint64_t>> points;
  for (const auto& point : percentiles(ticks)) points.emplace_back(point.fraction, point.value);
  return points;
}

std::string histogram::hgrm(double unit, unsigned ticks) const {
  if (!(unit > 0)) {
    throw std::invalid_argument(fmt::format("values in units of {}; a unit must be positive", unit));
  }
  const auto scaled = [&](double value) { return fmt::format("{:12.{}f}", value / unit, digits_); };
  std::string text =
      fmt::format("{:>12} {:>14} {:>10} {:>14}\n\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)");
  for (const auto& [fraction, value, count_up_to] : percentiles(ticks)) {
    text += fmt::format("{} {:.12f} {:10}", scaled(static_cast<double>(value)), fraction, count_up_to);
    if (fraction < 1) text += fmt::format(" {:14.2f}", 1 / (1 - fraction));
    text += '\n';
  }
  const auto doublings = counts_.size() / half_ - 1;
  text += fmt::format("#[Mean    = {}, StdDeviation   = {}]\n", scaled(mean().value_or(0)),
                      scaled(stddev().value_or(0)));
  text += fmt::format("#[Max     = {}, Total count    = {:12}]\n", scaled(static_cast<double>(max_)), count_);
  text += fmt::format("#[Buckets = {:12}, SubBuckets     = {:12}]\n", doublings, 2 * half_);
  return text;
}

}  // namespace espalier::measure
