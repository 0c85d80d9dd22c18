#pragma once

#include <string>
#include <vector>

#include "espalier/workload/subject.hpp"

namespace espalier::app {

/// The maps that names and placements stand for, in the order of the catalogue and then of the placements: an
/// entry of the catalogue where there is one with that placement, else the map with a placement chosen now.
/// Without placements what choose_maps() gives. "all" are the placements that this process can have; standard
/// error tells of the others. Throws usage_error with what there is to choose from.
[[nodiscard]] std::vector<workload::registration> choose_placed_maps(
    const std::vector<std::string>& names, const std::vector<std::string>& placements);

/// One map whose placement records its blocks. Throws usage_error likewise, and where the map is none that can
/// be inspected.
[[nodiscard]] workload::registration recorded_map(const std::string& name, const std::string& placement);

}  // namespace espalier::app
