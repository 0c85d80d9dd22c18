#pragma once

#include <string>

#include "apps/studies/eunomia/claims.hpp"
#include "apps/studies/study_output.hpp"

// The pages of the study, measured or simulated alike: what was measured, and what it shows.

namespace espalier::app::eunomia {

/// The charts of a page, and the maps that it lacks. `machine` is empty for this one.
[[nodiscard]] charted_figure figure_of(const page& shown, const results& measured, const setting& where,
                                       const std::string& machine);

}  // namespace espalier::app::eunomia
