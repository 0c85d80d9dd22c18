#pragma once

// Latencies: a histogram with a bounded relative error over the whole range (HDR histogram, G. Tene).

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace espalier::measure {

/// Counts values, such as nanoseconds, from 0 to 2^40. A reported value differs from the recorded one by less than a
/// factor of 1 + 10^-digits and is never below it. Values above 2^40 are counted in the last bucket, but min() and
/// max() stay exact. record() takes constant time and neither allocates nor throws. Not synchronized: use one histogram
/// per thread and merge them afterwards. Takes 35 KiB at 2 digits and about ten times as much for each further digit.
class histogram {
 public:
  static constexpr std::uint64_t highest_value = std::uint64_t{1} << 40;

  /// Throws std::invalid_argument unless 1 <= significant_digits <= 5.
  explicit histogram(unsigned significant_digits = 2);

  void record(std::uint64_t value, std::uint64_t times = 1) noexcept {
    if (times == 0) return;
    counts_[index_of(std::min(value, highest_value))] += times;
    count_ += times;
    min_ = std::min(min_, value);
    max_ = std::max(max_, value);
  }

  /// Throws std::invalid_argument if the numbers of digits differ.
  void merge(const histogram& other);
  void reset() noexcept;

  [[nodiscard]] unsigned significant_digits() const noexcept { return digits_; }
  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }

  /// For an empty histogram all of these are std::nullopt. mean and stddev (of the whole population) use the middle of
  /// each value's bucket.
  [[nodiscard]] std::optional<std::uint64_t> min() const noexcept;
  [[nodiscard]] std::optional<std::uint64_t> max() const noexcept;
  [[nodiscard]] std::optional<double> mean() const noexcept;
  [[nodiscard]] std::optional<double> stddev() const noexcept;

  /// The least value that the given fraction of all records does not exceed: 0.5 is the median, 1 the exact maximum.
  /// Throws std::invalid_argument unless 0 <= fraction <= 1.
  [[nodiscard]] std::optional<std::uint64_t> value_at(double fraction) const;

  /// Points from fraction 0 to 1, denser towards 1: `ticks` points for each halving of the remainder. Throws
  /// std::invalid_argument if ticks is 0. No points for an empty histogram.
  struct percentile_point {
    double fraction;
    std::uint64_t value;
    std::uint64_t count_up_to;  // records in the buckets up to that of value
    friend bool operator==(const percentile_point&, const percentile_point&) = default;
  };
  [[nodiscard]] std::vector<percentile_point> percentiles(unsigned ticks = 5) const;

  /// (fraction, value) of percentiles(ticks), for a plot.
  [[nodiscard]] std::vector<std::pair<double, std::uint64_t>> curve(unsigned ticks = 5) const;

  /// The text form of HdrHistogram's tools (.hgrm), with values divided by `unit`, such as 1000 for microseconds. As in
  /// those tools, an empty histogram has mean 0 and maximum 0 beside its total count of 0. Throws std::invalid_argument
  /// if ticks is 0 or unit is not positive.
  [[nodiscard]] std::string hgrm(double unit = 1, unsigned ticks = 5) const;

 private:
  // Values below 2 * half_ have a bucket each; above, each doubling of the value has half_ buckets. Both
  // rules meet in one formula because shifting leaves a number in [half_, 2 * half_).
  std::size_t index_of(std::uint64_t value) const noexcept {
    const auto shift = static_cast<unsigned>(std::bit_width(value | (2 * half_ - 1))) - sub_bits_;
    return shift * half_ + (value >> shift);
  }
  struct bucket {
    std::uint64_t lowest;
    std::uint64_t highest;
  };
  bucket bucket_at(std::size_t index) const noexcept;
  std::uint64_t reported_value(std::size_t index) const noexcept;

  unsigned digits_;
  unsigned sub_bits_;
  std::uint64_t half_;
  std::vector<std::uint64_t> counts_;
  std::uint64_t count_ = 0;
  std::uint64_t min_ = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t max_ = 0;
};

}  // namespace espalier::measure
