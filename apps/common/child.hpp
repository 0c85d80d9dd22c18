#pragma once

#include <spawn.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Programs that this one starts, the files that lie beside it, and folders for files that they exchange.

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

/// 128 plus the signal's number if a signal ended it.
[[nodiscard]] int exit_status_of(const ended_child& child) noexcept;

enum class child_output : unsigned char { shown, dropped };

/// Runs a program to its end and returns its exit status: 128 plus the signal's number if a signal ended it, nullopt if
/// it could not be started. The first word is searched as the shell would. The child uses this program's standard
/// error, and its environment unless one is given (NAME=VALUE, each name once). The child handles interrupts from the
/// keyboard itself; a request to end (SIGTERM, SIGHUP) is forwarded to it. Its process id is stored in `process`, if
/// given.
[[nodiscard]] std::optional<int> run_child(const std::vector<std::string>& command,
                                           child_output output = child_output::shown,
                                           const std::vector<std::string>* environment = nullptr,
                                           pid_t* process = nullptr);

/// Finds a file of this distribution: at `installed` below the prefix, which is a folder above this executable, or else
/// at `built`, relative to the executable's folder. nullopt if neither exists.
[[nodiscard]] std::optional<std::filesystem::path> find_companion(const std::filesystem::path& built,
                                                                  const std::filesystem::path& installed);

/// A new folder for temporary files. The destructor removes it with its contents.
class scratch_folder {
 public:
  /// The folder's name begins with `name`. Throws std::system_error if it cannot be created.
  explicit scratch_folder(std::string_view name);
  scratch_folder(const scratch_folder&) = delete;
  scratch_folder& operator=(const scratch_folder&) = delete;
  ~scratch_folder();

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

/// Variables of the environment, for a started program only.
using variables = std::vector<std::pair<std::string, std::string>>;

/// The library libespalier-<name>.so, installed with this executable or built with it. Throws usage_error if there is
/// none, or if the dynamic linker would not accept its path.
[[nodiscard]] std::filesystem::path find_preload_library(std::string_view name);

/// Runs a program to its end with libraries preloaded, in their order and before those that LD_PRELOAD already names.
/// Its input and output are unchanged. Returns its status as a shell would: 128 plus the signal's number if one ended
/// it. Its process id is stored in `process`, if given. Throws usage_error, before the start, if nothing can be
/// preloaded into the program, or if there is no such program.
[[nodiscard]] int run_preloaded(const std::vector<std::string>& command,
                                const std::vector<std::filesystem::path>& libraries, const variables& set,
                                pid_t* process = nullptr);

/// This process's environment, with the given variables set and libraries preloaded, for a program that it starts.
[[nodiscard]] std::vector<std::string> child_environment(variables set,
                                                         const std::vector<std::filesystem::path>& libraries);

}  // namespace espalier::app
