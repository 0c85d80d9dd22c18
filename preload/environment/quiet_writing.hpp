#pragma once

#include <signal.h>
#include <time.h>

#include <cerrno>
#include <initializer_list>

#include "preload/kernel/kept_errno.hpp"

namespace espalier::preload {

/// During its life this thread may write to a pipe without reader or a file that may not grow, without a signal.
/// SIGPIPE for a line of this library would end a program that had written nothing. errno is the write's.
class quiet_writing {
 public:
  quiet_writing() noexcept {
    sigemptyset(&raised_);
    sigaddset(&raised_, SIGPIPE);
    sigaddset(&raised_, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &raised_, &before_);
    // A signal that is pending already is the program's.
    sigset_t pending;
    sigemptyset(&pending);
    sigpending(&pending);
    for (const int signal : {SIGPIPE, SIGXFSZ}) {
      if (sigismember(&pending, signal) == 1) sigdelset(&raised_, signal);
    }
  }
  quiet_writing(const quiet_writing&) = delete;
  quiet_writing& operator=(const quiet_writing&) = delete;
  ~quiet_writing() {
    const kept_errno keep;
    constexpr timespec at_once{};
    while (sigtimedwait(&raised_, nullptr, &at_once) > 0 || errno == EINTR) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t raised_;
  sigset_t before_;
};

}  // namespace espalier::preload
