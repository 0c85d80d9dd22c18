#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "apps/oltp/run.hpp"

// What `espalier oltp` shows of its measurements: a ranking, and with it a file and pages.

namespace espalier::app {

/// Whether each condition of each measurement holds.
[[nodiscard]] bool holds_everywhere(const std::vector<db::measured>& all);

/// The ranking, what is wrong anywhere, and with `details`, or of a single measurement, the transactions of each. There is
/// at least one.
void print_measured(const std::vector<db::measured>& all, bool details, bool colour);

/// Adds to the document of a study: result, figures and benchmarks. There is at least one.
void add_measured(nlohmann::ordered_json& document, const std::string& workload,
                  const std::vector<db::measured>& all);

}  // namespace espalier::app
