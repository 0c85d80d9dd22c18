#pragma once

// Which key the next operation touches: random indices in [0, keys).
//
// Sources: W. Hoermann and G. Derflinger, "Rejection-Inversion to Generate Variates from Monotone Discrete
// Distributions", ACM TOMACS 6(3), 1996 (zipfian kinds); J. Gray et al., "Quickly Generating Billion-Record Synthetic
// Databases", SIGMOD 1994 (self-similar); G. Marsaglia and T. Bray, SIAM Review 6(3), 1964 (normal).

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>

#include "espalier/measure/permutation.hpp"
#include "espalier/measure/random.hpp"

namespace espalier::measure {

enum class distribution_kind {
  uniform,
  zipfian,            // index i has a probability proportional to 1 / (i + 1)^theta
  scrambled_zipfian,  // the same, its ranks distributed over the range by a seeded permutation
  latest,             // zipfian counted back from the newest of a growing number of keys
  hotspot,            // the first keys get a fixed share of the draws; uniform within each part
  normal,             // mean keys / 2, truncated to the range by redraw
  self_similar,       // in each range the first fraction h gets 1 - h of the draws, at every scale
  poisson,            // of keys, or of equal ranges of keys; truncated to the range by redraw
  sequential,         // thread t of n visits t, t + n, t + 2n, ... and begins again at t
};

/// A kind and its parameters as a value. In text the parameters follow a colon; without them the defaults apply:
///   uniform                  zipfian:THETA, scrambled-zipfian:THETA, latest:THETA   (0 < THETA <= 64, 0.99)
///   sequential               hotspot:KEYS,DRAWS    fractions of the keys and of the draws  (0.2,0.8)
///   self-similar:H           (0 < H <= 0.5, 0.2)
///   normal:SIGMA             standard deviation as a fraction of the keys  (0 < SIGMA <= 1, 0.125)
///   poisson:LAMBDA[,RANGES]  mean as a fraction of the keys  (0 < LAMBDA <= 1, 0.5)
/// A Poisson distribution over many keys is narrow: its standard deviation is the root of its mean. With RANGES it draws
/// one of so many equal ranges of keys, and a key of it uniformly.
struct distribution_spec {
  distribution_kind kind = distribution_kind::uniform;
  std::array<double, 2> parameters{};  // in the order of the text; parameters that the kind lacks are 0

  /// Throws std::invalid_argument with a message that lists what is accepted.
  static distribution_spec parse(std::string_view text);

  /// Always with parameters: parse(to_string()) equals *this.
  [[nodiscard]] std::string to_string() const;

  friend bool operator==(const distribution_spec&, const distribution_spec&) = default;
};

namespace detail {

/// Zipf's law over ranks 1..n by rejection-inversion. Exact for every theta > 0 (1 included), constant set-up, about
/// one trial per draw. In the paper's notation density is h(x) = x^-theta, and integral is H, from 1 to x.
class zipf_law {
 public:
  explicit zipf_law(double theta) noexcept
      : theta_(theta), first_(integral(1.5) - 1), shortcut_(2 - inverse(integral(2.5) - density(2))) {}

  /// What draw() needs to know of n. It depends on n alone.
  [[nodiscard]] double bound(double n) const noexcept { return integral(n + 0.5); }

  /// Rank minus one; bound_of_n is bound(n).
  [[nodiscard]] std::uint64_t draw(random_generator& random, double n, double bound_of_n) const noexcept {
    for (;;) {
      const double u = bound_of_n + random.unit() * (first_ - bound_of_n);
      const double x = inverse(u);
      const double k = std::clamp(std::floor(x + 0.5), 1.0, n);
      if (k - x <= shortcut_ || u >= integral(k + 0.5) - density(k)) return static_cast<std::uint64_t>(k) - 1;
    }
  }

 private:
  double density(double x) const noexcept { return std::exp(-theta_ * std::log(x)); }

  // (x^(1 - theta) - 1) / (1 - theta), written so that nothing cancels near theta == 1, where it is log x.
  double integral(double x) const noexcept {
    const double log_x = std::log(x);
    const double t = (1 - theta_) * log_x;
    return t == 0 ? log_x : log_x * (std::expm1(t) / t);
  }

  double inverse(double y) const noexcept {
    const double t = std::max((1 - theta_) * y, -1.0);  // rounding may pass the pole, which means infinity
    return std::exp(t == 0 ? y : y * (std::log1p(t) / t));
  }

  double theta_;
  double first_;     // H(3/2) - h(1)
  double shortcut_;  // a draw this close below its rank is accepted without computing H again
};

}  // namespace detail

/// A distribution over [0, keys), with everything precomputed that does not change. Immutable, shared by threads.
class distribution {
 public:
  /// Only scrambled_zipfian uses `seed`: it maps rank r to permutation(keys, seed)(r). Throws std::invalid_argument if
  /// keys is 0, if a parameter is out of its range, or if keys exceeds what the kind computes exactly in double
  /// precision: 2^53, for poisson 2^40; uniform and sequential have no limit.
  explicit distribution(const distribution_spec& spec, std::uint64_t keys, std::uint64_t seed = 0);

  [[nodiscard]] const distribution_spec& spec() const noexcept { return spec_; }
  [[nodiscard]] std::uint64_t keys() const noexcept { return keys_; }

 private:
  friend class sampler;

  distribution_spec spec_;
  std::uint64_t keys_;
  double real_keys_;
  detail::zipf_law zipf_;
  double zipf_bound_;
  permutation scramble_;
  std::uint64_t hot_keys_ = 0;
  double hot_share_ = 0;
  double sigma_ = 0;
  double exponent_ = 1;
  double lambda_ = 1;
  double ranges_ = 1;  // of poisson; as many as keys, unless given
};

/// One thread's draws. Owns generator and position; refers to the distribution, which must outlive it. Draws neither
/// allocate nor throw. Equal (distribution, seed, thread, threads) give equal draws.
class sampler {
 public:
  /// Throws std::invalid_argument unless thread < threads.
  explicit sampler(const distribution& source, std::uint64_t seed, unsigned thread = 0, unsigned threads = 1);
  explicit sampler(const distribution&& source, std::uint64_t seed, unsigned thread = 0,
                   unsigned threads = 1) = delete;

  /// An index in [0, keys).
  std::uint64_t next() noexcept { return next(source_->keys_); }

  /// As next(), but `latest` draws from [0, inserted), most often inserted - 1; the other kinds ignore
  /// `inserted`. It may exceed keys() and must be at least 1.
  std::uint64_t next(std::uint64_t inserted) noexcept {
    if (source_->spec_.kind == distribution_kind::uniform) return random_.below(source_->keys_);
    return draw_other(inserted);
  }

 private:
  /// Separate, so that a uniform draw, which is short, saves no registers.
  [[gnu::noinline]] std::uint64_t draw_other(std::uint64_t inserted) noexcept {
    const distribution& d = *source_;
    switch (d.spec_.kind) {
      case distribution_kind::zipfian:
        return d.zipf_.draw(random_, d.real_keys_, d.zipf_bound_);
      case distribution_kind::scrambled_zipfian:
        return d.scramble_(d.zipf_.draw(random_, d.real_keys_, d.zipf_bound_));
      case distribution_kind::latest:
        return draw_latest(inserted);
      case distribution_kind::hotspot:
        return draw_hotspot();
      case distribution_kind::normal:
        return draw_normal();
      case distribution_kind::self_similar:
        return std::min(static_cast<std::uint64_t>(d.real_keys_ * std::pow(random_.unit(), d.exponent_)),
                        d.keys_ - 1);
      case distribution_kind::poisson:
        return draw_poisson();
      case distribution_kind::uniform:
      case distribution_kind::sequential:
        break;
    }
    return draw_sequential();
  }

  std::uint64_t draw_latest(std::uint64_t inserted) noexcept {
    assert(inserted > 0);
    if (inserted != latest_keys_) {
      latest_keys_ = inserted;
      latest_bound_ = source_->zipf_.bound(static_cast<double>(inserted));
    }
    return inserted - 1 - source_->zipf_.draw(random_, static_cast<double>(inserted), latest_bound_);
  }

  std::uint64_t draw_hotspot() noexcept {
    const distribution& d = *source_;
    const std::uint64_t cold_keys = d.keys_ - d.hot_keys_;
    if (random_.unit() < d.hot_share_ || cold_keys == 0) return random_.below(d.hot_keys_);
    return d.hot_keys_ + random_.below(cold_keys);
  }

  std::uint64_t draw_normal() noexcept {
    const distribution& d = *source_;
    for (;;) {
      const double u = 2 * random_.unit() - 1;
      const double v = 2 * random_.unit() - 1;
      const double square = u * u + v * v;
      if (square >= 1 || square == 0) continue;
      // The method's second variate is discarded: keeping it would cost a branch and state on every draw.
      const double x = d.real_keys_ / 2 + d.sigma_ * u * std::sqrt(-2 * std::log(square) / square);
      if (x >= 0 && x < d.real_keys_) return static_cast<std::uint64_t>(x);
    }
  }

  std::uint64_t draw_poisson() noexcept {
    const distribution& d = *source_;
    for (;;) {
      const auto range = static_cast<double>(poisson_(random_));
      if (range >= d.ranges_) continue;
      if (d.ranges_ == d.real_keys_) return static_cast<std::uint64_t>(range);
      const double index = (range + random_.unit()) * (d.real_keys_ / d.ranges_);
      return std::min(static_cast<std::uint64_t>(index), d.keys_ - 1);
    }
  }

  std::uint64_t draw_sequential() noexcept {
    const std::uint64_t index = position_;
    position_ = source_->keys_ - index > stride_ ? index + stride_ : start_;
    return index;
  }

  const distribution* source_;
  random_generator random_;
  std::uint64_t start_;
  std::uint64_t stride_;
  std::uint64_t position_;
  std::uint64_t latest_keys_;
  double latest_bound_;
  std::poisson_distribution<std::int64_t> poisson_;
};

}  // namespace espalier::measure
