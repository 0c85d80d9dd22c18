#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace espalier::programs {

/// Why a library of this build cannot be preloaded into a program, in one line that says what would help; nullopt
/// where it can. A name without a slash is looked for in PATH, and a script's interpreter is looked at in its
/// place. Reads the program's headers only.
[[nodiscard]] std::optional<std::string> preload_obstacle(const std::filesystem::path& program);

}  // namespace espalier::programs
