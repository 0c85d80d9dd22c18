#include "apps/common/spawn.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

extern char** environ;  // NOLINT(readability-redundant-declaration)

namespace espalier::app {
namespace {

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
  std::vector<char*> variables;
  if (how.environment != nullptr) variables = pointers_to(*how.environment);
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
      how.apart ? &apart : how.attributes, words.data(), variables.empty() ? environ : variables.data());
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

}  // namespace espalier::app
