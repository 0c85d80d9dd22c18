#include "apps/common/child.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <system_error>

#include "apps/common/exit_status.hpp"
#include "espalier/programs/preload_obstacle.hpp"

extern char** environ;  // NOLINT(readability-redundant-declaration)

namespace espalier::app {
namespace {

namespace fs = std::filesystem;

/// exec() takes words in this form, though it changes none of them. They must outlive the result.
std::vector<char*> pointers_to(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

child_descriptors::child_descriptors() { posix_spawn_file_actions_init(&actions_); }
child_descriptors::~child_descriptors() { posix_spawn_file_actions_destroy(&actions_); }

void child_descriptors::open(int descriptor, const std::string& path, int flags) {
  posix_spawn_file_actions_addopen(&actions_, descriptor, path.c_str(), flags, 0);
}
void child_descriptors::take(int descriptor, int from) {
  posix_spawn_file_actions_adddup2(&actions_, from, descriptor);
}

std::optional<pid_t> spawn(const std::vector<std::string>& command, const spawn_how& how) {
  const std::vector<char*> words = pointers_to(command);
  std::vector<char*> environment;
  if (how.environment != nullptr) environment = pointers_to(*how.environment);
  pid_t child = 0;
  posix_spawnattr_t apart;
  posix_spawnattr_init(&apart);
  posix_spawnattr_setflags(&apart, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  // A signal sent to this process's group before the child has left the group would end the child later.
  sigset_t interrupts;
  sigemptyset(&interrupts);
  sigaddset(&interrupts, SIGINT);
  sigaddset(&interrupts, SIGTERM);
  posix_spawnattr_setsigmask(&apart, &interrupts);
  const int failed = posix_spawnp(
      &child, words.front(), how.descriptors == nullptr ? nullptr : how.descriptors->get(),
      how.apart ? &apart : how.attributes, words.data(), environment.empty() ? environ : environment.data());
  posix_spawnattr_destroy(&apart);
  if (failed != 0) return std::nullopt;
  return child;
}

ended_child wait_for(pid_t child) noexcept {
  ended_child ended{};
  while (wait4(child, &ended.status, 0, &ended.used) < 0 && errno == EINTR) {
  }
  return ended;
}

int exit_status_of(const ended_child& child) noexcept {
  return WIFEXITED(child.status) ? WEXITSTATUS(child.status) : 128 + WTERMSIG(child.status);
}

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

  /// The child's exit status, when the child has ended.
  [[nodiscard]] int status_of(pid_t child) const {
    running_child = child;
    sigprocmask(SIG_SETMASK, &mask_before_, nullptr);
    const ended_child ended = wait_for(child);
    running_child = 0;
    return exit_status_of(ended);
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
  return signals.status_of(*child);
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

scratch_folder::scratch_folder(std::string_view name) {
  std::error_code failed;
  const fs::path parent = fs::temp_directory_path(failed);
  if (failed) throw usage_error("TMPDIR names no folder; name one for temporary files");
  std::string pattern = (parent / fmt::format("{}.XXXXXX", name)).string();
  if (mkdtemp(pattern.data()) == nullptr)
    throw std::system_error(errno, std::generic_category(), "cannot make " + pattern);
  path_ = pattern;
}

scratch_folder::~scratch_folder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

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
