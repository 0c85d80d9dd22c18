#pragma once

#include "apps/common/parser_forward.hpp"

// The verbs. Each adds its subcommand to the parser and runs from the parser's callback; it throws
// usage_error or std::invalid_argument for what the user can mend, anything else for what he cannot.

namespace espalier::app {

void add_bench_command(CLI::App& parser);
void add_inspect_command(CLI::App& parser);
void add_list_command(CLI::App& parser);
void add_report_command(CLI::App& parser);
void add_run_command(CLI::App& parser);
void add_simulate_command(CLI::App& parser);
void add_completion_command(CLI::App& parser);
void add_man_command(CLI::App& parser);

/// Becomes the simulator, which speaks for the verb from here on. Throws usage_error where this build has none.
[[noreturn]] void become_simulator(char** arguments);

}  // namespace espalier::app
