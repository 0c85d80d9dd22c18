#pragma once

#include <string>
#include <vector>

#include "espalier/workload/subject.hpp"

namespace espalier::app {

/// The maps that names and placements denote, in the order of the catalogue and then of the placements: an entry of the
/// catalogue if there is one with that placement, else the map with a placement chosen at run time. Without placements,
/// the result of choose_maps(). "all" means every placement. Throws usage_error that lists the choices.
[[nodiscard]] std::vector<workload::registration> choose_placed_maps(
    const std::vector<std::string>& names, const std::vector<std::string>& placements);

/// One map with a placement that records its blocks. Throws usage_error likewise, and if the map cannot be inspected.
[[nodiscard]] workload::registration recorded_map(const std::string& name, const std::string& placement);

}  // namespace espalier::app
