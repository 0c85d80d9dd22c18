#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace espalier::app {

enum class child_output : unsigned char { shown, dropped };

/// Runs a program to its end and returns its exit status: 128 plus the signal's number if a signal ended it, nullopt if
/// it could not be started. The first word is searched as the shell would. The child uses this program's standard
/// error, and its environment unless one is given (NAME=VALUE, each name once). The child handles interrupts from the
/// keyboard itself; a request to end (SIGTERM, SIGHUP) is forwarded to it. Its process id is stored in `process`, if
/// given.
[[nodiscard]] std::optional<int> run_child(const std::vector<std::string>& command,
                                           child_output output = child_output::shown,
                                           const std::vector<std::string>* environment = nullptr,
                                           pid_t* process = nullptr);

/// Finds a file of this distribution: at `installed` below the prefix, which is a folder above this executable, or else
/// at `built`, relative to the executable's folder. nullopt if neither exists.
[[nodiscard]] std::optional<std::filesystem::path> find_companion(const std::filesystem::path& built,
                                                                  const std::filesystem::path& installed);

}  // namespace espalier::app
