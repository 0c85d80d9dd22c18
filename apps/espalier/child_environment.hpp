#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "preloaded_program.hpp"

namespace espalier::app {

/// This process's environment, with the given variables set and libraries preloaded, for a program that it starts.
[[nodiscard]] std::vector<std::string> child_environment(variables set,
                                                         const std::vector<std::filesystem::path>& libraries);

}  // namespace espalier::app
