#pragma once

#include <sys/stat.h>

namespace espalier::preload {

/// Whether a file may take the place of what has this name: of nothing, or of a file; not of a device, a pipe, a
/// folder, or a link to any of these.
inline bool is_replaceable(const char* name) noexcept {
  struct stat found{};
  return lstat(name, &found) != 0 || S_ISREG(found.st_mode);
}

}  // namespace espalier::preload
