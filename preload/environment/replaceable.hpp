#pragma once

#include <sys/stat.h>

namespace espalier::preload {

/// Whether a file may replace this name: true where it is free or a regular file; false for a device, pipe, folder,
/// or a link to one of these.
inline bool is_replaceable(const char* name) noexcept {
  struct stat found{};
  return lstat(name, &found) != 0 || S_ISREG(found.st_mode);
}

}  // namespace espalier::preload
