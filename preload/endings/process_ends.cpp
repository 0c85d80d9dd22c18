// The ways to end a process that run no destructors.

#include "preload/endings/process_ends.hpp"

#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/next/later_definition.hpp"

namespace espalier::preload {
namespace {

/// The next definition does what is left, another preloaded library's say. It is looked up here, so that programs which
/// end otherwise pay nothing for it. Without one the process ends all the same.
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
