#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "espalier/measure/context.hpp"
#include "espalier/workload/session.hpp"

// Not installed: programs need not have nlohmann_json.

namespace espalier::workload {

/// What to_json() (result.hpp) prints, for a program that adds to it.
[[nodiscard]] nlohmann::ordered_json to_document(const measure::run_context& context,
                                                 const std::vector<measurement>& all);

}  // namespace espalier::workload
