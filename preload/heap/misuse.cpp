#include "preload/heap/misuse.hpp"

#include <stdlib.h>
#include <unistd.h>

#include <cstdint>

#include "preload/environment/last_words.hpp"
#include "preload/recording/text.hpp"

namespace espalier::preload {

void misused(const char* what, const void* address) noexcept {
  char line[160];
  text words(line, sizeof line);
  (words << "espalier: " << what << " ").hexadecimal(reinterpret_cast<std::uintptr_t>(address)) << "\n";
  // Where standard error is closed the line is lost.
  write_whole(STDERR_FILENO, line, words.size());
  abort();
}

}  // namespace espalier::preload
