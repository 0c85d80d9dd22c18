#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace espalier::test {

/// Runs the tests that match a filter, disabled ones included, in a new process of this executable, with an additional
/// variable in its environment: for choices that a process makes before main. Returns its exit status, -1 if it did not
/// exit by itself.
inline int reexecute(const std::string& filter, const char* variable, const char* value) {
  const std::string argument = "--gtest_filter=" + filter;
  const pid_t child = fork();
  if (child == 0) {
    setenv(variable, value, 1);
    execl("/proc/self/exe", "test", argument.c_str(), "--gtest_brief=1", "--gtest_also_run_disabled_tests",
          static_cast<char*>(nullptr));
    _exit(127);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

/// Runs an action in a forked copy of this process and returns its answer, -1 if the copy crashed. Only while no other
/// thread runs.
template <class Action>
int in_forked_child(Action&& action) {
  const pid_t child = fork();
  if (child == 0) _exit(action());
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

}  // namespace espalier::test
