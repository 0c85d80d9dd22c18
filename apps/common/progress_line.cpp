#include "apps/common/progress_line.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace espalier::app {

progress_line::progress_line(elsewhere where)
    : terminal_(isatty(STDERR_FILENO) == 1), silent_(!terminal_ && where == elsewhere::nothing) {}

void progress_line::clear() {
  if (terminal_) std::fputs("\r\033[K", stderr);
}

void progress_line::step(std::size_t done, std::size_t total, const std::string& what) {
  if (silent_) return;
  if (terminal_) {
    clear();
    std::fprintf(stderr, "[%3zu%%] %.*s", done * 100 / std::max<std::size_t>(total, 1), 90, what.c_str());
    std::fflush(stderr);
    return;
  }
  const std::size_t tenths = done * 10 / std::max<std::size_t>(total, 1);
  if (done != 0 && tenths <= tenths_shown_) return;
  tenths_shown_ = tenths;
  std::fprintf(stderr, "%zu%%: %s\n", tenths * 10, what.c_str());
}

}  // namespace espalier::app
