#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "apps/common/exit_status.hpp"
#include "apps/common/usage_error.hpp"
#include "commands.hpp"

namespace espalier::app {
namespace {

void check_command(const CLI::App& parser, const std::string& word) {
  if (word.starts_with('-')) return;
  std::vector<std::string> known;
  for (const CLI::App* verb : parser.get_subcommands([](const CLI::App*) { return true; }))
    known.push_back(verb->get_name());
  if (std::ranges::find(known, word) != known.end()) return;
  throw usage_error(fmt::format("there is no command '{}'{}; the commands are {}", word,
                                did_you_mean(word, known), fmt::join(known, ", ")));
}

}  // namespace
}  // namespace espalier::app

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
  std::vector<std::string> statuses;
  for (const exit_meaning& e : exit_meanings) statuses.push_back(fmt::format("{} {}", e.status, e.meaning));
  parser.footer(
      fmt::format("Exit status: {}.\nespalier COMMAND --help says more.", fmt::join(statuses, ", ")));
  add_bench_command(parser);
  add_simulate_command(parser);
  add_inspect_command(parser);
  add_run_command(parser);
  add_list_command(parser);
  add_report_command(parser);
  add_completion_command(parser);
  add_man_command(parser);

  std::vector<const char*> words(argv, argv + argc);
  if (argc > 1) {
    const std::string_view first = argv[1];
    if (first == "version") words = {argv[0], "--version"};
    if (first == "help" && argc == 2) words = {argv[0], "--help"};
    if (first == "help" && argc > 2) words = {argv[0], argv[2], "--help"};
  }
  return run_reporting("espalier", [&] {
    if (words.size() > 1) check_command(parser, words[1]);
    return run_parser(parser, static_cast<int>(words.size()), words.data());
  });
}
