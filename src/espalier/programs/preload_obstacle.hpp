#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace espalier::programs {

/// Why a library of this build cannot be preloaded into a program, in one line that includes the remedy; nullopt if it
/// can. A name without a slash is searched in PATH, and for a script its interpreter is examined. Reads only the
/// program's headers.
[[nodiscard]] std::optional<std::string> preload_obstacle(const std::filesystem::path& program);

}  // namespace espalier::programs
