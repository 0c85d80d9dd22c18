#include "apps/studies/malloc_speed/claims.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "espalier/measure/statistics.hpp"

namespace espalier::app::malloc_speed {
namespace {

const std::string index_aware = "index-aware";
const std::string glibc = "glibc";
const std::string mimalloc = "mimalloc";
const std::string jemalloc = "jemalloc";

void add_once(std::vector<std::string>& names, const std::string& name) {
  if (std::ranges::find(names, name) == names.end()) names.push_back(name);
}

judgement missing(const std::string& malloc) {
  return {fmt::format("{} or index-aware was not measured", malloc), agreement::not_measurable};
}

judgement time_beside(const cost_readings& measured, const std::string& other, double most, bool may_equal) {
  const auto mean = measured.mean(&cost_readings::ratio, index_aware, other);
  if (!mean) return missing(other);
  std::string worst;
  double most_seen = 0;
  for (const std::string& benchmark : measured.benchmarks()) {
    const double ratio = measured.ratio(benchmark, index_aware, other).value_or(0);
    if (ratio > most_seen) {
      most_seen = ratio;
      worst = benchmark;
    }
  }
  return {
      fmt::format("index-aware takes {:.2f} x the time of {} in the geometric mean, at most {:.2f} x ({})",
                  *mean, other, most_seen, worst),
      *mean < most || (may_equal && *mean == most) ? agreement::agrees : agreement::differs};
}

judgement memory_beside(const cost_readings& measured, const std::string& other) {
  std::string said;
  bool good = true;
  for (const std::string& benchmark : measured.benchmarks()) {
    const auto ratio = measured.memory_ratio(benchmark, index_aware, other);
    if (!ratio) return missing(other);
    said += fmt::format("{}{:.2f} x with {}", said.empty() ? "" : ", ", *ratio, benchmark);
    good = good && *ratio <= most_memory;
  }
  if (said.empty()) return missing(other);
  return {"memory at its most is " + said, good ? agreement::agrees : agreement::differs};
}

}  // namespace

void cost_readings::add(const std::string& benchmark, const std::string& malloc, cost_reading r) {
  add_once(benchmarks_, benchmark);
  add_once(mallocs_, malloc);
  all_[{benchmark, malloc}] = std::move(r);
}

const cost_reading* cost_readings::find(const std::string& benchmark, const std::string& malloc) const {
  const auto found = all_.find({benchmark, malloc});
  return found == all_.end() ? nullptr : &found->second;
}

std::vector<double> cost_readings::ratios(const std::string& benchmark, const std::string& malloc,
                                          const std::string& other) const {
  const cost_reading* const above = find(benchmark, malloc);
  const cost_reading* const below = find(benchmark, other);
  if (above == nullptr || below == nullptr) return {};
  return ratios_of_rounds(above->rounds, below->rounds);
}

std::optional<double> cost_readings::ratio(const std::string& benchmark, const std::string& malloc,
                                           const std::string& other) const {
  return measure::median(ratios(benchmark, malloc, other));
}

std::optional<double> cost_readings::memory_ratio(const std::string& benchmark, const std::string& malloc,
                                                  const std::string& other) const {
  const cost_reading* const above = find(benchmark, malloc);
  const cost_reading* const below = find(benchmark, other);
  if (above == nullptr || below == nullptr || below->peak_kib == 0) return std::nullopt;
  return static_cast<double>(above->peak_kib) / static_cast<double>(below->peak_kib);
}

std::optional<double> cost_readings::mean(cost_ratio of, const std::string& malloc,
                                          const std::string& other) const {
  std::vector<double> ratios;
  for (const std::string& benchmark : benchmarks_) {
    const std::optional<double> one = (this->*of)(benchmark, malloc, other);
    if (!one) return std::nullopt;
    ratios.push_back(*one);
  }
  return measure::geometric_mean(ratios);
}

std::array<judged_claim, 3> judge(const cost_readings& measured) {
  return {judged_claim{
              fmt::format("An index-aware malloc takes no more than {} x the time of mimalloc", most_time),
              time_beside(measured, mimalloc, most_time, true), false},
          judged_claim{"An index-aware malloc is faster than glibc's", time_beside(measured, glibc, 1, false),
                       false},
          judged_claim{fmt::format("It needs no more than {} x the memory of jemalloc", most_memory),
                       memory_beside(measured, jemalloc), false}};
}

}  // namespace espalier::app::malloc_speed
