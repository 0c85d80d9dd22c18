#pragma once

#include <sys/wait.h>
#include <unistd.h>

namespace espalier::test {

/// Runs an action in a copy of this process, which may have other running threads, and returns its answer. If a signal
/// ended the copy, returns minus the signal; SIGALRM if it hangs.
template <class Action>
int in_forked_copy(Action&& action) {
  constexpr unsigned watchdog_seconds = 60;
  const pid_t child = fork();
  if (child == 0) {
    alarm(watchdog_seconds);
    _exit(action());
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return -1000;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace espalier::test
