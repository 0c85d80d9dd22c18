#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <cstdint>

#include "preload/environment/output.hpp"

namespace espalier::preload {

/// Writes one line to standard error, "espalier: <what> 0x<address>", and calls abort(): the program freed an
/// invalid pointer. glibc does the same. Allocates nothing.
[[noreturn, gnu::noinline]] inline void misused(const char* what, const void* address) noexcept {
  char line[160];
  text words(line, sizeof line);
  (words << "espalier: " << what << " ").hexadecimal(reinterpret_cast<std::uintptr_t>(address)) << "\n";
  // Where standard error is closed the line is lost.
  write_whole(STDERR_FILENO, line, words.size());
  abort();
}

}  // namespace espalier::preload
