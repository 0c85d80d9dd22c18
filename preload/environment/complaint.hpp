#pragma once

#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "preload/environment/quiet_writing.hpp"

namespace espalier::preload {

/// Writes one line of these texts to standard error, in one piece. Where that is closed the line is lost.
template <class... Texts>
void say_line(Texts... texts) noexcept {
  const quiet_writing quiet;
  const auto part = [](const char* text) { return iovec{const_cast<char*>(text), std::strlen(text)}; };
  const std::array line{part(texts)..., part("\n")};
  if (writev(STDERR_FILENO, line.data(), line.size()) < 0) return;
}

/// Reports the consequence of a wrong setting, `about`, and the error, `what`.
inline void complain(const char* about, const char* what) noexcept { say_line("espalier: ", about, what); }

}  // namespace espalier::preload
