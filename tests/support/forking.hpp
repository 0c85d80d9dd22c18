#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

namespace espalier::test {

/// Runs an action in a copy of this process, which may have other running threads, and returns its answer. If a signal
/// ended the copy, returns minus the signal; SIGALRM if it hangs.
template <class Action>
int in_forked_copy(Action&& action) {
  constexpr unsigned watchdog_seconds = 3600;
  const pid_t child = fork();
  if (child == 0) {
    alarm(watchdog_seconds);
    _exit(action());
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return -1000;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/// A thread that does something, stays as it is, and goes on when it is told to.
class stopped_thread {
 public:
  /// work(stop) calls stop() once.
  template <class Work>
  explicit stopped_thread(Work work)
      : thread_([this, work] {
          work([this] {
            reached_ = true;
            reached_.notify_all();
            go_on_.wait(false);
          });
        }) {
    reached_.wait(false);
  }
  stopped_thread(const stopped_thread&) = delete;
  stopped_thread& operator=(const stopped_thread&) = delete;
  ~stopped_thread() {
    go_on_ = true;
    go_on_.notify_all();
    thread_.join();
  }

 private:
  std::atomic<bool> reached_{false};
  std::atomic<bool> go_on_{false};
  std::thread thread_;
};

}  // namespace espalier::test
