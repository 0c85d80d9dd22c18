#include <CLI/CLI.hpp>
#include <string_view>

#include "apps/common/exit_status.hpp"
#include "commands.hpp"

int main(int argc, char** argv) {
  using namespace espalier::app;
  if (argc > 1 && std::string_view(argv[1]) == "simulate")
    return run_reporting("espalier", [&]() -> int { become_simulator(argv + 2); });

  CLI::App parser(
      "Concurrent ordered indexes: which one, where its memory should lie, and why it is slow.\n"
      "Start with: espalier bench --quick",
      "espalier");
  parser.require_subcommand(1);
  parser.set_version_flag("--version", ESPALIER_VERSION);
  parser.failure_message(CLI::FailureMessage::simple);
  parser.footer(
      "Exit status: 0 done, 1 something failed on the way, 2 what was asked for cannot be done.\n"
      "espalier VERB --help says more.");
  add_bench_command(parser);
  add_simulate_command(parser);
  add_inspect_command(parser);
  add_run_command(parser);
  add_list_command(parser);
  add_report_command(parser);
  add_completion_command(parser);
  return run_parser(parser, argc, argv);
}
