#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace espalier::app {

/// Variables of the environment, for a started program only.
using variables = std::vector<std::pair<std::string, std::string>>;

/// The library libespalier-<name>.so, installed with this executable or built with it. Throws usage_error if there is
/// none, or if the dynamic linker would not accept its path.
[[nodiscard]] std::filesystem::path find_preload_library(std::string_view name);

/// Runs a program to its end with libraries preloaded, in their order and before those that LD_PRELOAD already names.
/// Its input and output are unchanged. Returns its status as a shell would: 128 plus the signal's number if one ended
/// it. Its process id is stored in `process`, if given. Throws usage_error, before the start, if nothing can be
/// preloaded into the program, or if there is no such program.
[[nodiscard]] int run_preloaded(const std::vector<std::string>& command,
                                const std::vector<std::filesystem::path>& libraries, const variables& set,
                                pid_t* process = nullptr);

/// This process's environment, with the given variables set and libraries preloaded, for a program that it starts.
[[nodiscard]] std::vector<std::string> child_environment(variables set,
                                                         const std::vector<std::filesystem::path>& libraries);

}  // namespace espalier::app
