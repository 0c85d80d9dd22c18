#pragma once

#include <signal.h>

namespace espalier::emulated_rtm {

/// The signal that stops a thread: one of those that the C library leaves to programs and that few use.
inline constexpr int stop_signal = 62;

/// All threads of the process but the calling one, which one at a time may stop. Async-signal-safe.
class other_threads {
 public:
  /// Once, before all else.
  static void listen() noexcept;

  /// Until it is this thread's turn to stop them. Who waits here stands.
  static void wait_for_turn() noexcept;
  static void pass_turn() noexcept;
  /// After a fork, in the child, where none of the parent's other threads is.
  static void forget() noexcept;

  /// In a turn. True once all stand, where they happened to be, in user code. False, and none is held, where one does not come to
  /// stand: it keeps the signal blocked, or waits in vfork.
  [[nodiscard]] static bool stop() noexcept;
  static void resume() noexcept;

  /// To stand. Tells whether a system call was interrupted by that.
  [[nodiscard]] static unsigned times_this_one_was_told() noexcept;
};

// In interposed.cpp, in place of the C library's.

/// Installs a handler of ours, which the program cannot replace.
void handle(int signal, const struct sigaction& ours) noexcept;

/// What the program wants done at a signal of ours is done at the next: what it did was not for us.
void leave_to_the_program(int signal) noexcept;

}  // namespace espalier::emulated_rtm
