#pragma once

#include <string>
#include <vector>

#include "espalier/workload/subject.hpp"

namespace espalier::app {

/// The maps that a list of names stands for, in the order of the catalogue, each once. A name is an entry
/// ("ticket", "ticket/shared_heap"), "all" (every algorithm at its default) or "every" (every entry). With
/// placements, each algorithm named is taken with those instead of its default's. Throws usage_error with
/// what there is to choose from.
[[nodiscard]] std::vector<workload::registration> choose_maps(const std::vector<std::string>& names,
                                                              const std::vector<std::string>& placements);

/// The peers that this program was built with.
[[nodiscard]] std::vector<workload::registration> all_peers();

/// Names of the catalogue's entries, the peers' aside, in order.
[[nodiscard]] std::vector<std::string> map_names();

}  // namespace espalier::app
