// The start of the program, the ways in which it ends, its copies, the program that it becomes, and modules that are
// unloaded. The snapshot at the end is taken where the program begins to end: before handlers of atexit() and
// destructors free its data.

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdint>

#include "preload/endings/process_ends.hpp"
#include "preload/environment/output.hpp"
#include "preload/interposed/process.hpp"
#include "preload/kernel/pages.hpp"
#include "preload/kernel/saved_errno.hpp"
#include "preload/next/later_definition.hpp"
#include "preload/next/next_malloc.hpp"
#include "preload/recording/settings.hpp"

namespace espalier::preload {

constinit recorder process_recorder;
constinit std::atomic<bool> recording_begun{false};

namespace {

constexpr const char library_name[] = "libespalier-inspect.so";
const char* library_path = "";

using main_function = int (*)(int, char**, char**);
main_function program_main = nullptr;

void on_signal(int) {
  const saved_errno keep;
  stack_t stack{};
  // An alternate stack may be too small for writing a file.
  const bool small = sigaltstack(nullptr, &stack) == 0 && (stack.ss_flags & SS_ONSTACK) != 0;
  process_recorder.signalled(!small);
}

void listen_to(int number) noexcept {
  struct sigaction action{};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  sigaction(number, &action, nullptr);
}

/// An executable's own malloc also serves its libraries.
void find_first_malloc(std::uintptr_t own_begin, std::uintptr_t own_end) noexcept {
  const void* const first = dlsym(RTLD_DEFAULT, "malloc");
  const auto address = reinterpret_cast<std::uintptr_t>(first);
  if (address >= own_begin && address < own_end) return;
  Dl_info info{};
  void* symbol = nullptr;
  if (dladdr1(first, &info, &symbol, RTLD_DL_SYMENT) == 0 || symbol == nullptr) return;
  // In a program at a fixed address, malloc's address is that of an entry in its linkage table.
  if (static_cast<const ElfW(Sym)*>(symbol)->st_shndx != SHN_UNDEF)
    process_recorder.passed_by(info.dli_fname);
}

__attribute__((constructor)) void begin_with_library(int, char**, char** environment) {
  begin_recording(environment);
}

/// Reached where the program ends in a way that is not interposed.
__attribute__((destructor)) void end_with_library() { process_recorder.finish("end"); }

int main_with_end(int count, char** arguments, char** environment) {
  const int status = program_main(count, arguments, environment);
  process_recorder.finish("return from main");
  return status;
}

template <class Function>
Function* next_function(const char* name) noexcept {
  return reinterpret_cast<Function*>(next_definition(name));
}

/// The C library's execve() or execvpe(), so that the next program is recorded in the place of this one. It may be
/// called in a child that shares its parent's memory, which is another process.
int become(const char* by, const char* program, char* const* words, char* const* environment) noexcept {
  const auto exec = reinterpret_cast<decltype(&execve)>(later_definition(by));
  if (!process_recorder.must_be_passed_on()) return exec(program, words, environment);
  memory_budget memory;
  char** const whole = put_back_in_environment(environment, library_path, memory);
  const int failed = exec(program, words, whole == nullptr ? environment : whole);
  memory.unmap(whole, memory.bytes());
  return failed;
}

}  // namespace

void process_ends(const char* moment) noexcept { process_recorder.finish(moment); }

void begin_recording(char** environment) noexcept {
  if (recording_begun.exchange(true)) return;
  const saved_errno keep;
  static constinit settings how;
  const char* const wrong = read_settings(environment, how);
  if (how.follow != followed::all) remove_from_environment(environment, library_name);
  if (wrong != nullptr) {
    complain("the program is not recorded: ", wrong);
  } else if (next() != nullptr) {
    dl_find_object own{};
    _dl_find_object(reinterpret_cast<void*>(&begin_recording), &own);
    library_path = own.dlfo_link_map->l_name;
    const auto own_begin = reinterpret_cast<std::uintptr_t>(own.dlfo_map_start);
    const auto own_end = reinterpret_cast<std::uintptr_t>(own.dlfo_map_end);
    this_thread.inside = true;
    pthread_atfork([] { process_recorder.before_fork(); }, [] { process_recorder.after_fork_in_parent(); },
                   [] { process_recorder.after_fork_in_child(); });
    find_first_malloc(own_begin, own_end);
    this_thread.inside = false;
    process_recorder.start(
        how, [](void* record) { process_recorder.thread_ends(*static_cast<thread_record*>(record)); },
        own_begin, own_end);
    if (how.signal != 0) listen_to(how.signal);
  }
}

}  // namespace espalier::preload

using espalier::preload::become;
using espalier::preload::next_function;
using espalier::preload::process_recorder;

#pragma GCC visibility push(default)
extern "C" {

int __libc_start_main(int (*main)(int, char**, char**), int count, char** arguments, void (*initialise)(),
                      void (*finalise)(), void (*finalise_linker)(), void* stack_end) {
  espalier::preload::program_main = main;
  return next_function<decltype(__libc_start_main)>("__libc_start_main")(
      espalier::preload::main_with_end, count, arguments, initialise, finalise, finalise_linker, stack_end);
}

__attribute__((noreturn)) void exit(int status) noexcept {
  process_recorder.finish("exit");
  next_function<void(int)>("exit")(status);
  __builtin_unreachable();
}

int execve(const char* path, char* const* words, char* const* environment) noexcept {
  return become("execve", path, words, environment);
}
int execv(const char* path, char* const* words) noexcept { return become("execve", path, words, environ); }
int execvpe(const char* file, char* const* words, char* const* environment) noexcept {
  return become("execvpe", file, words, environment);
}
int execvp(const char* file, char* const* words) noexcept { return become("execvpe", file, words, environ); }

int dlclose(void* module) noexcept {
  const int failure = next_function<int(void*)>("dlclose")(module);
  if (failure == 0) process_recorder.modules_changed();
  return failure;
}

}  // extern "C"
#pragma GCC visibility pop
