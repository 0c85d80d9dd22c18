#pragma once

#include <signal.h>

#include <array>
#include <atomic>

namespace espalier::app {

/// During its lifetime, the first SIGINT or SIGTERM only makes requested() true, and reports on standard error that the
/// results so far will be written. The next one ends the program. One object at a time.
class interruption {
 public:
  interruption();
  interruption(const interruption&) = delete;
  interruption& operator=(const interruption&) = delete;
  ~interruption();

  [[nodiscard]] static const std::atomic<bool>& requested() noexcept;

  /// The exit status of a program that was interrupted and has written its results: that which a shell reports for a
  /// program ended by the signal. 0 if it was not interrupted.
  [[nodiscard]] static int status() noexcept;

 private:
  static constexpr std::array signals{SIGINT, SIGTERM};
  std::array<struct sigaction, signals.size()> before_{};
};

/// For work that writes its results to files: from now on a closed pipe ends the printing, not the program. Programs
/// that this one starts have the signal as before.
void outlive_closed_pipes() noexcept;
/// Whether a closed pipe was encountered since.
[[nodiscard]] bool met_closed_pipe() noexcept;

}  // namespace espalier::app
