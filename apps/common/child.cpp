#include "apps/common/child.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>

#include "apps/common/spawn.hpp"

namespace espalier::app {

namespace fs = std::filesystem;

namespace {

std::atomic<pid_t> running_child{0};
static_assert(std::atomic<pid_t>::is_always_lock_free);

void hand_on(int signal) {
  const int kept = errno;
  if (const pid_t child = running_child.load(); child > 0) kill(child, signal);
  errno = kept;
}

/// While a child runs, this process ignores interrupts from the keyboard, as in system(3), and forwards requests to end
/// to the child. The child starts with the signal settings that this process had.
class signals_for_child {
 public:
  signals_for_child() {
    posix_spawnattr_init(&for_child_);
    sigset_t restored;
    sigemptyset(&restored);
    struct sigaction ignore{};
    ignore.sa_handler = SIG_IGN;
    for (std::size_t i = 0; i < interrupts.size(); ++i) {
      sigaction(interrupts[i], &ignore, &before_[i]);
      if (before_[i].sa_handler != SIG_IGN) sigaddset(&restored, interrupts[i]);
    }
    // Requests stay blocked until there is a child.
    sigset_t held;
    sigemptyset(&held);
    for (const int request : requests) sigaddset(&held, request);
    sigprocmask(SIG_BLOCK, &held, &mask_before_);
    struct sigaction handed{};
    handed.sa_handler = hand_on;
    handed.sa_flags = SA_RESTART;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      sigaction(requests[i], nullptr, &requests_before_[i]);
      if (requests_before_[i].sa_handler == SIG_DFL) sigaction(requests[i], &handed, nullptr);
    }
    posix_spawnattr_setsigdefault(&for_child_, &restored);
    posix_spawnattr_setsigmask(&for_child_, &mask_before_);
    posix_spawnattr_setflags(&for_child_, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  }
  signals_for_child(const signals_for_child&) = delete;
  signals_for_child& operator=(const signals_for_child&) = delete;
  ~signals_for_child() {
    for (std::size_t i = 0; i < interrupts.size(); ++i) sigaction(interrupts[i], &before_[i], nullptr);
    for (std::size_t i = 0; i < requests.size(); ++i) sigaction(requests[i], &requests_before_[i], nullptr);
    sigprocmask(SIG_SETMASK, &mask_before_, nullptr);
    posix_spawnattr_destroy(&for_child_);
  }
  [[nodiscard]] const posix_spawnattr_t* for_child() const noexcept { return &for_child_; }

  /// The child's status, as waitpid() returns it, when the child has ended.
  [[nodiscard]] int status_of(pid_t child) const {
    running_child = child;
    sigprocmask(SIG_SETMASK, &mask_before_, nullptr);
    const int status = wait_for(child).status;
    running_child = 0;
    return status;
  }

 private:
  static constexpr std::array interrupts{SIGINT, SIGQUIT};
  static constexpr std::array requests{SIGTERM, SIGHUP};
  std::array<struct sigaction, interrupts.size()> before_{};
  std::array<struct sigaction, requests.size()> requests_before_{};
  sigset_t mask_before_{};
  posix_spawnattr_t for_child_{};
};

}  // namespace

std::optional<int> run_child(const std::vector<std::string>& command, child_output output,
                             const std::vector<std::string>* environment, pid_t* process) {
  child_descriptors descriptors;
  if (output == child_output::dropped) descriptors.open(STDOUT_FILENO, "/dev/null", O_WRONLY);
  std::fflush(stdout);  // this process's earlier output precedes the child's
  const signals_for_child signals;
  const auto child = spawn(
      command, {.descriptors = &descriptors, .environment = environment, .attributes = signals.for_child()});
  if (!child) return std::nullopt;
  if (process != nullptr) *process = *child;
  const int status = signals.status_of(*child);
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
