#include "apps/common/report_page.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

#include "apps/common/exit_status.hpp"

namespace espalier::app {
namespace {

namespace fs = std::filesystem;

fs::path report_tool() {
  if (const char* named = std::getenv("ESPALIER_REPORT")) return named;
  if (const auto found = find_companion(ESPALIER_REPORT_SOURCE, ESPALIER_REPORT_INSTALLED)) return *found;
  throw std::runtime_error(
      fmt::format("the report tool is not at {} below the installation; install it with the command, or name "
                  "it in ESPALIER_REPORT",
                  ESPALIER_REPORT_INSTALLED));
}

/// The distribution's interpreter comes first, because the distribution's packages provide the plots.
std::string interpreter() {
  if (const char* named = std::getenv("ESPALIER_PYTHON")) return named;
  return access("/usr/bin/python3", X_OK) == 0 ? "/usr/bin/python3" : "python3";
}

}  // namespace

void write_report(const std::vector<fs::path>& results, const fs::path& page, child_output output) {
  std::vector<std::string> command{interpreter(), report_tool().string()};
  for (const fs::path& r : results) command.push_back(r.string());
  command.insert(command.end(), {"-o", page.string()});
  const std::optional<int> status = run_child(command, output);
  if (!status)
    throw std::runtime_error(
        fmt::format("cannot start {}; the report needs Python 3: install it, or name one in ESPALIER_PYTHON",
                    command[0]));
  if (*status == 2) throw usage_error("no report was written, for the reason above");
  if (*status != 0)
    throw std::runtime_error(
        "no report was written, for the reason above; the results themselves are unharmed");
}

void write_report(const std::string& results, const std::optional<io::output_file>& file,
                  io::output_file& page) {
  const scratch_folder folder("espalier-report");
  const fs::path source = folder.path() / (file ? file->target().filename() : "results.json");
  const fs::path written = folder.path() / "page";
  io::output_file(source).commit(results);
  write_report({source}, written, child_output::dropped);
  std::ostringstream html;
  html << std::ifstream(written, std::ios::binary).rdbuf();
  page.commit(html.view());
}

}  // namespace espalier::app
