#include "preloaded_program.hpp"

#include <fmt/format.h>

#include <cstdlib>

#include "apps/common/child.hpp"
#include "apps/common/usage_error.hpp"
#include "child_environment.hpp"
#include "espalier/programs/preload_obstacle.hpp"

namespace espalier::app {

namespace fs = std::filesystem;

fs::path find_preload_library(std::string_view name) {
  const std::string file = fmt::format("libespalier-{}.so", name);
  auto library = find_companion("../../preload/" + file, fs::path(ESPALIER_LIBRARY_FOLDER) / file);
  if (!library)
    throw usage_error(
        fmt::format("this program was installed or built without {}; build it with ESPALIER_PRELOAD=ON, on "
                    "x86-64, without "
                    "sanitizers",
                    file));
  if (library->string().find_first_of(" :") != std::string::npos)
    throw usage_error(fmt::format(
        "'{}' has a space or a colon in it, at which LD_PRELOAD ends a name; install it to another folder",
        library->string()));
  return *std::move(library);
}

std::string preload_list(const std::vector<fs::path>& libraries) {
  std::string list;
  for (const fs::path& library : libraries) list += library.string() + ':';
  if (const char* const before = std::getenv("LD_PRELOAD")) list += before;
  if (list.ends_with(':')) list.pop_back();
  return list;
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

}  // namespace espalier::app
