#pragma once

#include <array>
#include <functional>
#include <string>

#include "apps/common/parser_forward.hpp"

namespace espalier::app {

inline constexpr int exit_done = 0;
inline constexpr int exit_failure = 1;
inline constexpr int exit_usage = 2;

struct exit_meaning {
  int status;
  const char* meaning;
};
/// The exit statuses of every program, for help and manual.
inline constexpr std::array exit_meanings{
    exit_meaning{exit_done, "done"}, exit_meaning{exit_failure, "failed on the way"},
    exit_meaning{exit_usage, "invalid request"}, exit_meaning{130, "interrupted (143 by SIGTERM)"}};

/// Runs the parser with the arguments and its callbacks. An exception becomes one line on standard error that begins
/// with the parser's name, and a status. A callback with a status of its own throws it as CLI::RuntimeError, after it
/// has reported everything.
[[nodiscard]] int run_parser(CLI::App& parser, int argc, const char* const* argv);

/// The same for any code.
[[nodiscard]] int run_reporting(const std::string& name, const std::function<int()>& code);

}  // namespace espalier::app
