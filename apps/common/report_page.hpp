#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "apps/common/child.hpp"
#include "espalier/io/output_file.hpp"

namespace espalier::app {

/// Turns result files into one self-contained HTML page with the report tool. Throws std::runtime_error if the tool is
/// absent or fails, usage_error if it rejects the request; the tool has then reported the reason itself. Its messages
/// about the page go to standard output, or nowhere.
void write_report(const std::vector<std::filesystem::path>& results, const std::filesystem::path& page,
                  child_output output = child_output::shown);

/// The same for results that may not have a file yet, or go to none. The page names that file. The tool prints nothing.
void write_report(const std::string& results, const std::optional<io::output_file>& file,
                  io::output_file& page);

}  // namespace espalier::app
