#include "preload/heap/misuse.hpp"

#include <stdlib.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace espalier::preload {

void misused(const char* what, const void* address) noexcept {
  char line[160];
  std::size_t size = 0;
  const auto append = [&](const char* more, std::size_t count) {
    std::memcpy(line + size, more, count);
    size += count;
  };
  append("espalier: ", 10);
  const std::size_t words = std::strlen(what);
  append(what, words < 100 ? words : 100);
  append(" 0x", 3);
  const auto number = reinterpret_cast<std::uintptr_t>(address);
  unsigned shift = 60;
  while (shift != 0 && (number >> shift) == 0) shift -= 4;
  for (;; shift -= 4) {
    append("0123456789abcdef" + (number >> shift & 15), 1);
    if (shift == 0) break;
  }
  append("\n", 1);
  // Nothing is left to do where standard error is closed.
  if (write(STDERR_FILENO, line, size) < 0) abort();
  abort();
}

}  // namespace espalier::preload
