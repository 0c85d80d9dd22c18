#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace espalier::app {

enum class child_output : unsigned char { shown, dropped };

/// Runs a program to its end and gives its exit status, 128 and the signal's number where a signal ended it,
/// nothing where it could not be started. The first word is looked for as the shell would. Standard error stays
/// this program's, and so does the environment, where none is given (NAME=VALUE, each name once). An interrupt from the
/// keyboard is the child's to heed, and a request to end (SIGTERM, SIGHUP) is handed on to it. Its process id is left in
/// `process`, if given.
[[nodiscard]] std::optional<int> run_child(const std::vector<std::string>& command,
                                           child_output output = child_output::shown,
                                           const std::vector<std::string>* environment = nullptr,
                                           pid_t* process = nullptr);

/// What belongs to this program: at `installed` below the prefix, which is a folder above this executable, or
/// else at `built`, seen from the executable's folder. Nothing where there is neither.
[[nodiscard]] std::optional<std::filesystem::path> find_companion(const std::filesystem::path& built,
                                                                  const std::filesystem::path& installed);

}  // namespace espalier::app
