#pragma once

// Pearson's goodness-of-fit test for draws made with a fixed seed: the outcome never varies between runs.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <vector>

namespace espalier::workload::testing {

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
inline goodness_of_fit chi_square(const std::vector<std::uint64_t>& observed,
                                  const std::vector<double>& weights) {
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

}  // namespace espalier::workload::testing
