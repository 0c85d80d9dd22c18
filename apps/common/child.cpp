#include "apps/common/child.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

extern char** environ;  // NOLINT(readability-redundant-declaration)

namespace espalier::app {

namespace fs = std::filesystem;

std::optional<int> run_child(const std::vector<std::string>& command, child_output output) {
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (output == child_output::dropped)
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  std::fflush(stdout);  // what was said before comes before what the child says
  pid_t child = 0;
  const int failed = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return std::nullopt;
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

std::optional<fs::path> find_companion(const fs::path& built, const fs::path& installed) {
  std::error_code none;
  const fs::path here = fs::read_symlink("/proc/self/exe", none).parent_path();
  if (here.empty()) return std::nullopt;
  // bin/espalier is one folder below the prefix, libexec/espalier/espalier-simulate two.
  for (const fs::path& prefix : {here.parent_path(), here.parent_path().parent_path()}) {
    if (fs::exists(prefix / installed, none)) return prefix / installed;
  }
  if (fs::exists(here / built, none)) return (here / built).lexically_normal();
  return std::nullopt;
}

}  // namespace espalier::app
