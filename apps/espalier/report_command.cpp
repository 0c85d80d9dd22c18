#include "report_command.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "commands.hpp"
#include "usage_error.hpp"

extern char** environ;  // NOLINT(readability-redundant-declaration)

namespace espalier::app {
namespace {

namespace fs = std::filesystem;

/// Beside this executable's prefix when installed, in the source tree when built there.
fs::path report_tool() {
  if (const char* named = std::getenv("ESPALIER_REPORT")) return named;
  std::error_code none;
  const fs::path self = fs::read_symlink("/proc/self/exe", none);
  fs::path installed = self.parent_path().parent_path() / ESPALIER_REPORT_INSTALLED;
  if (fs::exists(installed, none)) return installed;
  if (fs::exists(ESPALIER_REPORT_SOURCE, none)) return ESPALIER_REPORT_SOURCE;
  throw std::runtime_error(
      fmt::format("the report tool is not at {}; install it with the command, or name it in ESPALIER_REPORT",
                  installed.string()));
}

/// The distribution's interpreter first: its packages bring the plots.
std::string interpreter() {
  if (const char* named = std::getenv("ESPALIER_PYTHON")) return named;
  return access("/usr/bin/python3", X_OK) == 0 ? "/usr/bin/python3" : "python3";
}

int run(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t child = 0;
  if (posix_spawnp(&child, arguments[0], nullptr, nullptr, arguments.data(), environ) != 0)
    throw std::runtime_error(
        fmt::format("cannot start {}; the report needs Python 3: install it, or name one in ESPALIER_PYTHON",
                    command[0]));
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

}  // namespace

void write_report(const std::vector<fs::path>& results, const fs::path& page) {
  std::vector<std::string> command{interpreter(), report_tool().string()};
  for (const fs::path& r : results) command.push_back(r.string());
  command.insert(command.end(), {"-o", page.string()});
  const int status = run(command);
  if (status == 2) throw usage_error("no report was written, for the reason above");
  if (status != 0) throw std::runtime_error("the report tool failed; the results themselves are unharmed");
}

void add_report_command(CLI::App& parser) {
  struct options {
    std::vector<std::string> results;
    std::string page = "report.html";
  };
  const auto chosen = std::make_shared<options>();
  CLI::App* const verb =
      parser.add_subcommand("report", "Turn result files into one HTML page that works offline");
  verb->add_option("results", chosen->results, "Files that bench --json wrote")
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
