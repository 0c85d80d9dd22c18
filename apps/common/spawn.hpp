#pragma once

#include <spawn.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace espalier::app {

/// A program's file descriptors at its start, where they differ from this process's.
class child_descriptors {
 public:
  child_descriptors();
  child_descriptors(const child_descriptors&) = delete;
  child_descriptors& operator=(const child_descriptors&) = delete;
  ~child_descriptors();

  /// Opened in the child; the start fails if this fails.
  void open(int descriptor, const std::string& path, int flags);
  /// Takes one of this process's descriptors, even if it is set to close at exec().
  void take(int descriptor, int from);

  [[nodiscard]] const posix_spawn_file_actions_t* get() const noexcept { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
};

/// Null members: inherited from this process.
struct spawn_how {
  const child_descriptors* descriptors = nullptr;
  const std::vector<std::string>* environment = nullptr;  ///< NAME=VALUE, each name once
  const posix_spawnattr_t* attributes = nullptr;
  /// In a separate process group, with SIGINT and SIGTERM blocked: interrupts from the terminal do not reach it. Cannot
  /// be combined with attributes.
  bool apart = false;
};

/// Starts a program; nullopt if it cannot be started. The first word, which must be present, is searched as the shell
/// would, in this process's PATH. The caller must wait for the program.
[[nodiscard]] std::optional<pid_t> spawn(const std::vector<std::string>& command, const spawn_how& how);

struct ended_child {
  int status;   ///< as waitpid() returns it
  rusage used;  ///< by it and by the children for which it waited
};

/// Waits for the child's end. Signals that arrive meanwhile are handled, and the wait continues.
[[nodiscard]] ended_child wait_for(pid_t child) noexcept;

}  // namespace espalier::app
