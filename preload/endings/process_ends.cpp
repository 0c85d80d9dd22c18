// The functions that end a process without running destructors.

#include "preload/endings/process_ends.hpp"

#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/next/later_definition.hpp"

namespace espalier::preload {
namespace {

/// The next definition does the rest, for example another preloaded library's. It is looked up here, so that programs
/// that end otherwise do not pay for it. Without one the process ends all the same.
__attribute__((noreturn)) void end(const char* by, const char* moment, int status) noexcept {
  process_ends(moment);
  if (void* const next = later_definition(by)) reinterpret_cast<void (*)(int)>(next)(status);
  for (;;) syscall(SYS_exit_group, status);
}

}  // namespace
}  // namespace espalier::preload

#pragma GCC visibility push(default)
extern "C" {

__attribute__((noreturn)) void quick_exit(int status) noexcept {
  espalier::preload::end("quick_exit", "quick_exit", status);
}

__attribute__((noreturn)) void _exit(int status) { espalier::preload::end("_exit", "_exit", status); }

__attribute__((noreturn)) void _Exit(int status) noexcept {
  espalier::preload::end("_Exit", "_exit", status);
}

}  // extern "C"
#pragma GCC visibility pop
