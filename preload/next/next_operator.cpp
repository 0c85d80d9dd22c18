#include "preload/next/next_operator.hpp"

#include <dlfcn.h>
#include <stdlib.h>

#include <initializer_list>

#include "preload/environment/output.hpp"

namespace espalier::preload {
namespace {

/// Where a plug-in brought the C++ library, RTLD_NEXT does not see it, but calls still reach the operators here.
void* found_beside(const char* name) noexcept {
  for (const char* const library : {"libstdc++.so.6", "libc++abi.so.1", "libc++.so.1"}) {
    // The handle stays open: the library must stay loaded while its functions are called from here.
    void* const handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    if (handle == nullptr) continue;
    if (void* const function = dlsym(handle, name)) return function;
  }
  return nullptr;
}

[[noreturn]] void no_next(const char* name) noexcept {
  say_line("espalier: there is no C++ library behind ", name);
  abort();
}

}  // namespace

void* next_operator_named(const char* name) noexcept {
  void* found = dlsym(RTLD_NEXT, name);
  if (found == nullptr) found = found_beside(name);
  if (found == nullptr) no_next(name);
  return found;
}

}  // namespace espalier::preload
