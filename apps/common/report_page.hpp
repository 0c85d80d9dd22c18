#pragma once

#include <filesystem>
#include <vector>

#include "apps/common/child.hpp"

namespace espalier::app {

/// Turns result files into one self-contained HTML page by the report tool. Throws std::runtime_error where
/// the tool is absent or fails, usage_error where it refuses; it has then said why itself. What it says of the
/// page goes to standard output, or nowhere.
void write_report(const std::vector<std::filesystem::path>& results, const std::filesystem::path& page,
                  child_output output = child_output::shown);

}  // namespace espalier::app
