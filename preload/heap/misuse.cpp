#include "preload/heap/misuse.hpp"

#include <stdlib.h>
#include <unistd.h>

#include <cstdint>

#include "preload/recording/text.hpp"

namespace espalier::preload {

void misused(const char* what, const void* address) noexcept {
  char line[160];
  text words(line, sizeof line);
  (words << "espalier: " << what << " ").hexadecimal(reinterpret_cast<std::uintptr_t>(address)) << "\n";
  // Nothing is left to do where standard error is closed.
  if (write(STDERR_FILENO, line, words.size()) < 0) abort();
  abort();
}

}  // namespace espalier::preload
