// The ways to end a process that run no destructors.

#include "preload/endings/process_ends.hpp"

#include <dlfcn.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace espalier::preload {
namespace {

struct ending {
  const char* name;
  const char* moment;
  void (*next)(int);
};
constinit ending quickly{"quick_exit", "quick_exit", nullptr};
constinit ending at_once{"_exit", "_exit", nullptr};
constinit ending at_once_by_c{"_Exit", "_exit", nullptr};

void look_up(ending& one) noexcept {
  if (one.next == nullptr) one.next = reinterpret_cast<void (*)(int)>(dlsym(RTLD_NEXT, one.name));
}

/// Early: a signal handler that ends the process must not wait for the dynamic linker.
__attribute__((constructor)) void look_up_endings() {
  look_up(quickly);
  look_up(at_once);
  look_up(at_once_by_c);
}

/// The next definition does what is left, another preloaded library's say. Without one the process ends all the same.
__attribute__((noreturn)) void end(ending& by, int status) noexcept {
  process_ends(by.moment);
  look_up(by);
  if (by.next != nullptr) by.next(status);
  for (;;) syscall(SYS_exit_group, status);
}

}  // namespace
}  // namespace espalier::preload

#pragma GCC visibility push(default)
extern "C" {

__attribute__((noreturn)) void quick_exit(int status) noexcept {
  espalier::preload::end(espalier::preload::quickly, status);
}

__attribute__((noreturn)) void _exit(int status) {
  espalier::preload::end(espalier::preload::at_once, status);
}

__attribute__((noreturn)) void _Exit(int status) noexcept {
  espalier::preload::end(espalier::preload::at_once_by_c, status);
}

}  // extern "C"
#pragma GCC visibility pop
