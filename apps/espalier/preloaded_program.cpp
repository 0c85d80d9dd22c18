#include "preloaded_program.hpp"

#include <fmt/format.h>
#include <stdlib.h>

#include <deque>
#include <optional>

#include "apps/common/child.hpp"
#include "apps/common/usage_error.hpp"
#include "espalier/programs/preload_obstacle.hpp"

namespace espalier::app {
namespace {

namespace fs = std::filesystem;

/// A variable of this process's environment, for what it starts; as before when the scope is left.
class scoped_variable {
 public:
  scoped_variable(std::string name, const std::string& value) : name_(std::move(name)) {
    if (const char* const before = getenv(name_.c_str())) before_ = before;
    setenv(name_.c_str(), value.c_str(), 1);
  }
  scoped_variable(const scoped_variable&) = delete;
  scoped_variable& operator=(const scoped_variable&) = delete;
  ~scoped_variable() {
    if (before_)
      setenv(name_.c_str(), before_->c_str(), 1);
    else
      unsetenv(name_.c_str());
  }

 private:
  std::string name_;
  std::optional<std::string> before_;
};

}  // namespace

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
  if (const char* const before = getenv("LD_PRELOAD")) list += before;
  if (list.ends_with(':')) list.pop_back();
  return list;
}

int run_preloaded(const std::vector<std::string>& command, const std::vector<fs::path>& libraries,
                  const variables& set) {
  const auto obstacle = programs::preload_obstacle(command.front());
  if (obstacle && !libraries.empty()) throw usage_error(*obstacle);
  std::deque<scoped_variable> scope;
  if (!libraries.empty()) scope.emplace_back("LD_PRELOAD", preload_list(libraries));
  for (const auto& [variable, value] : set) scope.emplace_back(variable, value);
  const auto status = run_child(command);
  if (!status)
    throw usage_error(obstacle.value_or(fmt::format("'{}' could not be started", command.front())));
  return *status;
}

}  // namespace espalier::app
