#pragma once

#include <signal.h>

#include <array>
#include <atomic>

namespace espalier::app {

/// While one exists, the first SIGINT or SIGTERM only makes requested() true, and says on standard error that results so
/// far will be written; the next one ends the program. One at a time.
class interruption {
 public:
  interruption();
  interruption(const interruption&) = delete;
  interruption& operator=(const interruption&) = delete;
  ~interruption();

  [[nodiscard]] static const std::atomic<bool>& requested() noexcept;

  /// The exit status of a program that was interrupted and has written what it had, as a shell gives one that the signal
  /// ended; 0 where it was not.
  [[nodiscard]] static int status() noexcept;

 private:
  static constexpr std::array signals{SIGINT, SIGTERM};
  std::array<struct sigaction, signals.size()> before_{};
};

/// For work whose results go to files: from now on a closed pipe ends what is printed, not the program. Programs that this
/// one starts have the signal as before.
void outlive_closed_pipes() noexcept;
/// Whether one was met since.
[[nodiscard]] bool met_closed_pipe() noexcept;

}  // namespace espalier::app
