#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace espalier::app {

/// Variables of the environment, for a program alone.
using variables = std::vector<std::pair<std::string, std::string>>;

/// The library libespalier-<name>.so, installed with this executable or built with it. Throws usage_error where there
/// is none, or where its path is none that the dynamic linker would take.
[[nodiscard]] std::filesystem::path find_preload_library(std::string_view name);

/// What LD_PRELOAD is to be for these libraries, before those that it names already.
[[nodiscard]] std::string preload_list(const std::vector<std::filesystem::path>& libraries);

/// Runs a program to its end with libraries preloaded, in their order and before those that LD_PRELOAD names already;
/// its input and output are untouched. Gives its status as a shell would: 128 and the signal's number where one ended
/// it; its process id is left in `process`, if given. Throws usage_error where nothing can be preloaded into the
/// program, before it is started, or where there is no such program.
[[nodiscard]] int run_preloaded(const std::vector<std::string>& command,
                                const std::vector<std::filesystem::path>& libraries, const variables& set,
                                pid_t* process = nullptr);

}  // namespace espalier::app
