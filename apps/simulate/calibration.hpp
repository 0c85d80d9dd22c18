#pragma once

#include <string>
#include <vector>

#include "apps/common/simulate_options.hpp"
#include "apps/simulate/session.hpp"

// How far the simulated likeness of this machine agrees with the machine: in ratios between maps, for what
// computation costs is guessed.

namespace espalier::simulate {

/// A map's throughput over that of the reference, under one workload with one number of threads.
struct calibrated_ratio {
  std::string workload;
  unsigned threads = 0;
  std::string map;
  std::string reference;
  double native = 0;
  double simulated = 0;

  /// 0.1 where the simulated ratio is a tenth too high.
  [[nodiscard]] double deviation() const noexcept { return simulated / native - 1; }
};

/// Runs `espalier bench` on the maps simulated, as often as they were, and compares. The first map is the
/// reference. Throws std::runtime_error where the native run fails; it has then said why itself.
[[nodiscard]] std::vector<calibrated_ratio> calibrate(const app::simulate_options& options,
                                                      const std::vector<simulated_measurement>& simulated);

}  // namespace espalier::simulate
