#include "apps/common/child.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>

extern char** environ;  // NOLINT(readability-redundant-declaration)

namespace espalier::app {

namespace fs = std::filesystem;

namespace {

/// Interrupts from the keyboard pass this process by, as in system(3); a child has them as this process had.
class ignored_interrupts {
 public:
  ignored_interrupts() {
    posix_spawnattr_init(&for_child_);
    sigset_t restored;
    sigemptyset(&restored);
    struct sigaction ignore{};
    ignore.sa_handler = SIG_IGN;
    for (std::size_t i = 0; i < signals.size(); ++i) {
      sigaction(signals[i], &ignore, &before_[i]);
      if (before_[i].sa_handler != SIG_IGN) sigaddset(&restored, signals[i]);
    }
    posix_spawnattr_setsigdefault(&for_child_, &restored);
    posix_spawnattr_setflags(&for_child_, POSIX_SPAWN_SETSIGDEF);
  }
  ignored_interrupts(const ignored_interrupts&) = delete;
  ignored_interrupts& operator=(const ignored_interrupts&) = delete;
  ~ignored_interrupts() {
    for (std::size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], &before_[i], nullptr);
    posix_spawnattr_destroy(&for_child_);
  }
  [[nodiscard]] const posix_spawnattr_t* for_child() const noexcept { return &for_child_; }

 private:
  static constexpr std::array signals{SIGINT, SIGQUIT};
  std::array<struct sigaction, signals.size()> before_{};
  posix_spawnattr_t for_child_{};
};

}  // namespace

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
  const ignored_interrupts ignored;
  pid_t child = 0;
  const int failed =
      posix_spawnp(&child, arguments[0], &actions, ignored.for_child(), arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return std::nullopt;
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
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
