#pragma once

#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "preload/environment/quiet_writing.hpp"

namespace espalier::preload {

/// One line of these texts on standard error, in one piece. Nothing is left to do where that is closed.
template <class... Texts>
void say_line(Texts... texts) noexcept {
  const quiet_writing quiet;
  const auto part = [](const char* text) { return iovec{const_cast<char*>(text), std::strlen(text)}; };
  const std::array line{part(texts)..., part("\n")};
  if (writev(STDERR_FILENO, line.data(), line.size()) < 0) return;
}

/// What a library is wrongly told, and in which respect it goes on without.
inline void complain(const char* about, const char* what) noexcept { say_line("espalier: ", about, what); }

}  // namespace espalier::preload
