#pragma once

#include <signal.h>
#include <sys/types.h>

#include <array>
#include <atomic>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

// How a program ends: with which status, after an invalid request, and when it is interrupted.

/// Declares CLI11's classes by name. Its headers dominate the compilation of a file, and only files that declare or
/// read options need them.
// NOLINTBEGIN(readability-identifier-naming)
namespace CLI {
class App;
}
// NOLINTEND(readability-identifier-naming)

namespace espalier::app {

/// An invalid request: one line on standard error, exit status 2.
class usage_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// "; did you mean 'ticket'?" if a known name is close to what was typed, else empty.
[[nodiscard]] std::string did_you_mean(std::string_view typed, const std::vector<std::string>& known);

/// During its lifetime, the first SIGINT or SIGTERM only makes requested() true, and reports on standard error that the
/// results so far will be written. A later one ends the program, as a SIGHUP does; those that follow at once belong to the
/// first. One object at a time.
class interruption {
 public:
  interruption();
  interruption(const interruption&) = delete;
  interruption& operator=(const interruption&) = delete;
  ~interruption();

  [[nodiscard]] static const std::atomic<bool>& requested() noexcept;

  /// A process group that ends with the program, which a signal to the program does not reach. 0: none.
  static void ends_too(pid_t group) noexcept;
  /// In its lifetime the signals wait: until the group that was started is known.
  class held_back {
   public:
    held_back() noexcept;
    held_back(const held_back&) = delete;
    held_back& operator=(const held_back&) = delete;
    ~held_back();

   private:
    sigset_t before_;
  };

  /// The exit status of a program that was interrupted and has written its results: that which a shell reports for a
  /// program ended by the signal. 0 if it was not interrupted.
  [[nodiscard]] static int status() noexcept;

 private:
  static constexpr std::array signals{SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, signals.size()> before_{};
};

/// For work that writes its results to files: from now on a closed pipe ends the printing, not the program. Programs
/// that this one starts have the signal as before.
void outlive_closed_pipes() noexcept;

inline constexpr int exit_done = 0;
inline constexpr int exit_failure = 1;
inline constexpr int exit_usage = 2;

struct exit_meaning {
  int status;
  const char* meaning;
};
/// The exit statuses of every program, for help and manual.
inline constexpr std::array exit_meanings{
    exit_meaning{exit_done, "done"}, exit_meaning{exit_failure, "failed on the way"},
    exit_meaning{exit_usage, "invalid request"}, exit_meaning{130, "interrupted (143 by SIGTERM)"}};

/// Runs the parser with the arguments and its callbacks. An exception becomes one line on standard error that begins
/// with the parser's name, and a status. A callback with a status of its own throws it as CLI::RuntimeError, after it
/// has reported everything.
[[nodiscard]] int run_parser(CLI::App& parser, int argc, const char* const* argv);

/// The same for any code.
[[nodiscard]] int run_reporting(const std::string& name, const std::function<int()>& code);

}  // namespace espalier::app
