#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "apps/common/report_page.hpp"
#include "commands.hpp"

namespace espalier::app {

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
  verb->add_option("-o,--output", chosen->page, "The page to write")
      ->capture_default_str()
      ->type_name("FILE");
  verb->callback([chosen] {
    write_report({chosen->results.begin(), chosen->results.end()}, chosen->page);
    std::printf("%s\n", chosen->page.c_str());
  });
}

}  // namespace espalier::app
