#pragma once

#include <spawn.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace espalier::app {

/// What a program's descriptors are when it begins, where they are not this process's.
class child_descriptors {
 public:
  child_descriptors();
  child_descriptors(const child_descriptors&) = delete;
  child_descriptors& operator=(const child_descriptors&) = delete;
  ~child_descriptors();

  /// Opened in the child, which cannot be started where that fails.
  void open(int descriptor, const std::string& path, int flags);
  /// One of this process's, whatever that has said of exec().
  void take(int descriptor, int from);

  [[nodiscard]] const posix_spawn_file_actions_t* get() const noexcept { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
};

/// Where null, as this process has it.
struct spawn_how {
  const child_descriptors* descriptors = nullptr;
  const std::vector<std::string>* environment = nullptr;  ///< NAME=VALUE, each name once
  const posix_spawnattr_t* attributes = nullptr;
  /// In a process group of its own, with SIGINT and SIGTERM blocked: what the terminal interrupts does not reach it. Not
  /// with attributes.
  bool apart = false;
};

/// Starts a program; nothing where it cannot be. The first word is looked for as the shell would, in this process's
/// PATH; there are at least that word. Who starts it waits for it.
[[nodiscard]] std::optional<pid_t> spawn(const std::vector<std::string>& command, const spawn_how& how);

struct ended_child {
  int status;   ///< as waitpid() gives it
  rusage used;  ///< by it and by those that it waited for
};

/// When it has ended; signals that come meanwhile are handled and forgotten.
[[nodiscard]] ended_child wait_for(pid_t child) noexcept;

}  // namespace espalier::app
