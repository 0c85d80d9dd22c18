#pragma once

#include <string>
#include <vector>

#include "apps/common/options.hpp"
#include "apps/simulate/session.hpp"

// How well the simulated model of this machine agrees with the machine. Compares ratios between maps, because the cost
// of computation is an estimate.

namespace espalier::simulate {

/// A map's throughput divided by that of the reference, under one workload with one number of threads.
struct calibrated_ratio {
  std::string workload;
  unsigned threads = 0;
  std::string map;
  std::string reference;
  double native = 0;
  double simulated = 0;

  /// 0.1 if the simulated ratio is a tenth too high.
  [[nodiscard]] double deviation() const noexcept { return simulated / native - 1; }
};

/// Runs `espalier bench` on the simulated maps, with the same repetitions, and compares. The first map is the
/// reference. Throws std::runtime_error if the native run fails; that has then reported the reason itself.
[[nodiscard]] std::vector<calibrated_ratio> calibrate(const app::simulate_options& options,
                                                      const std::vector<simulated_measurement>& simulated);

}  // namespace espalier::simulate
