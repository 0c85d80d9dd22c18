#pragma once

#include <sys/uio.h>
#include <unistd.h>

#include <cstring>

namespace espalier::preload {

/// One line on standard error, in one piece. Nothing is left to do where that is closed.
inline void complain(const char* about, const char* what) noexcept {
  const auto part = [](const char* text) { return iovec{const_cast<char*>(text), std::strlen(text)}; };
  const iovec line[] = {part("espalier: "), part(about), part(what), part("\n")};
  if (writev(STDERR_FILENO, line, sizeof line / sizeof line[0]) < 0) return;
}

}  // namespace espalier::preload
