#pragma once

#include <filesystem>
#include <string_view>

#include "apps/common/exit_status.hpp"

// The verbs. Each adds its subcommand to the parser and runs from the parser's callback. It throws usage_error or
// std::invalid_argument for errors that the user can correct, anything else for others.

namespace espalier::app {

void add_bench_command(CLI::App& parser);
void add_inspect_command(CLI::App& parser);
void add_list_command(CLI::App& parser);
void add_oltp_command(CLI::App& parser);
void add_run_command(CLI::App& parser);
void add_completion_command(CLI::App& parser);
void add_man_command(CLI::App& parser);

/// The program of a verb that is one of its own, "simulate". Throws usage_error, which says what is missing, if it is not here.
[[nodiscard]] std::filesystem::path program_of(std::string_view verb);

}  // namespace espalier::app
