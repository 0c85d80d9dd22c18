#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "apps/common/child.hpp"
#include "apps/common/exit_status.hpp"
#include "apps/common/option_group.hpp"
#include "apps/common/options.hpp"
#include "apps/common/report_page.hpp"
#include "apps/espalier/commands.hpp"
#include "apps/serve/options.hpp"

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

void add_report_command(CLI::App& parser) {
  struct options {
    std::vector<std::string> results;
    std::string page = "report.html";
  };
  const auto chosen = std::make_shared<options>();
  CLI::App* const verb =
      parser.add_subcommand("report", "Turn result files into one HTML page that works offline");
  verb->add_option("results", chosen->results, "Files that bench, simulate or inspect wrote by --json")
      ->required()
      ->type_name("RESULTS.json");
  option_group(*verb).add_default("-o,--output", chosen->page, "FILE",
                                  "The page to write; - for standard output");
  verb->callback([chosen] { write_report({chosen->results.begin(), chosen->results.end()}, chosen->page); });
}

/// A verb that is a program of its own, espalier-VERB.
struct separate_verb {
  std::string_view name;
  std::string_view installed_in;
  const char* if_absent;
};
constexpr std::array separate_verbs{
    separate_verb{"simulate", ESPALIER_PROGRAM_FOLDER,
                  "this program was installed or built without the simulator; build all targets, with "
                  "ESPALIER_SIMULATOR=ON and without sanitizers"},
#ifdef ESPALIER_SERVES
    separate_verb{"serve", ESPALIER_COMMAND_FOLDER,
                  "its program espalier-serve is missing; build or install it again"},
#endif
};

/// Replaces this process by the verb's program. Throws usage_error if there is none.
[[noreturn]] void become(const separate_verb& verb, char** arguments) {
  const std::filesystem::path program = program_of(verb.name);
  std::string name = fmt::format("espalier {}", verb.name);
  std::vector<char*> words{name.data()};
  while (*arguments != nullptr) words.push_back(*arguments++);
  words.push_back(nullptr);
  execv(program.c_str(), words.data());
  throw std::runtime_error(fmt::format("cannot start {}: {}", program.string(), std::strerror(errno)));
}

/// Only for --help and for completion: such a verb is handled before the parser sees it.
template <class Options>
void add_separate_verb(CLI::App& parser, const char* name, const char* description) {
  const auto options = std::make_shared<Options>();
  CLI::App* const verb = parser.add_subcommand(name, description);
  declare(*verb, *options);
  verb->callback([options] {});
}

}  // namespace

std::filesystem::path program_of(std::string_view verb) {
  const auto* const known = std::ranges::find(separate_verbs, verb, &separate_verb::name);
  const std::string file = fmt::format("espalier-{}", verb);
  const auto program =
      find_companion(fmt::format("../{}/{}", verb, file), fmt::format("{}/{}", known->installed_in, file));
  if (!program) throw usage_error(fmt::format("{}: {}", verb, known->if_absent));
  return *program;
}

}  // namespace espalier::app

int main(int argc, char** argv) {
  using namespace espalier::app;
  for (const separate_verb& verb : separate_verbs) {
    if (argc > 1 && argv[1] == verb.name)
      return run_reporting("espalier", [&]() -> int { become(verb, argv + 2); });
  }

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
  add_separate_verb<simulate_options>(parser, "simulate", simulate_description);
  add_oltp_command(parser);
#ifdef ESPALIER_SERVES
  add_separate_verb<serve_options>(parser, "serve", serve_description);
#endif
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
