#pragma once

#include <filesystem>
#include <vector>

namespace espalier::app {

/// Turns result files into one self-contained HTML page by the report tool. Throws std::runtime_error where
/// the tool is absent or fails, usage_error where it refuses; it has then said why itself.
void write_report(const std::vector<std::filesystem::path>& results, const std::filesystem::path& page);

}  // namespace espalier::app
