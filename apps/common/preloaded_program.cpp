#include "apps/common/preloaded_program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "apps/common/child.hpp"
#include "apps/common/exit_status.hpp"
#include "espalier/programs/preload_obstacle.hpp"

extern char** environ;  // NOLINT(readability-redundant-declaration)

namespace espalier::app {

namespace fs = std::filesystem;

fs::path find_preload_library(std::string_view name) {
  const std::string file = fmt::format("libespalier-{}.so", name);
  auto library = find_companion("../../preload/" + file, fs::path(ESPALIER_LIBRARY_FOLDER) / file);
  if (!library)
    throw usage_error(
        fmt::format("this program was installed or built without {}; build all targets, with "
                    "ESPALIER_PRELOAD=ON, on x86-64, without sanitizers",
                    file));
  if (library->string().find_first_of(" :") != std::string::npos)
    throw usage_error(fmt::format(
        "'{}' has a space or a colon in it, at which LD_PRELOAD ends a name; install it to another folder",
        library->string()));
  return *std::move(library);
}

int run_preloaded(const std::vector<std::string>& command, const std::vector<fs::path>& libraries,
                  const variables& set, pid_t* process) {
  const auto obstacle = programs::preload_obstacle(command.front());
  if (obstacle && !libraries.empty()) throw usage_error(*obstacle);
  const std::vector<std::string> environment = child_environment(set, libraries);
  const auto status = run_child(command, child_output::shown, &environment, process);
  if (!status)
    throw usage_error(obstacle.value_or(fmt::format("'{}' could not be started", command.front())));
  return *status;
}

std::vector<std::string> child_environment(variables set,
                                           const std::vector<std::filesystem::path>& libraries) {
  std::vector<std::string> words;
  if (!libraries.empty()) {
    std::string list;
    for (const fs::path& library : libraries) list += library.string() + ':';
    if (const char* const before = std::getenv("LD_PRELOAD")) list += before;
    if (list.ends_with(':')) list.pop_back();
    set.emplace_back("LD_PRELOAD", std::move(list));
  }
  for (char** one = environ; *one != nullptr; ++one) {
    const std::string_view word(*one);
    const std::string_view name = word.substr(0, word.find('='));
    if (std::ranges::find(set, name, &variables::value_type::first) == set.end()) words.emplace_back(word);
  }
  for (const auto& [name, value] : set) words.push_back(fmt::format("{}={}", name, value));
  return words;
}

}  // namespace espalier::app
