#pragma once

#include <string>
#include <vector>

#include "apps/simulate/calibration.hpp"
#include "apps/simulate/session.hpp"

namespace espalier::simulate {

enum class table_width : unsigned char { narrow, wide };

/// Printed below all output.
inline constexpr const char* trust =
    "All of this is simulated. Memory is modelled, computation is guessed: rankings and counts mean\n"
    "something, absolute throughput does not. docs/simulated-machine.md says how far to trust it.";

/// One plan's measurements, map by map. The speed-up is relative to the map's first number of threads. The heading says
/// that all of it is simulated. Narrow is at most 120 columns for names of up to 30 characters; wide has every count.
[[nodiscard]] std::string measurement_table(const sim::machine_spec& machine,
                                            const std::vector<simulated_measurement>& group,
                                            table_width width, bool colour);

[[nodiscard]] std::string calibration_table(const std::vector<calibrated_ratio>& ratios, bool colour);

/// Every machine that can be simulated: a line begins with its name, then its description.
[[nodiscard]] std::string machine_list();

}  // namespace espalier::simulate
