#pragma once

#include <signal.h>

namespace espalier::emulated_rtm {

/// Installs a handler of ours, which the program cannot replace.
void handle(int signal, const struct sigaction& ours) noexcept;

/// What the program wants done at a signal of ours is done at the next: what it did was not for us.
void leave_to_the_program(int signal) noexcept;

}  // namespace espalier::emulated_rtm
