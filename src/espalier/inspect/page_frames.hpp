#pragma once

// Finds the physical page behind each page of this process, and its size. These determine in which sets of physically
// indexed caches a block lies, and how many translations it needs.

#include <string>

#include "espalier/inspect/snapshot.hpp"

namespace espalier::inspect {

/// The kernel's files, or files in their form.
struct page_sources {
  /// A 64-bit word for each virtual page. The kernel shows frames only to a process with CAP_SYS_ADMIN.
  std::string pagemap = "/proc/self/pagemap";
  /// A 64-bit word for each frame. Only root can read it.
  std::string page_flags = "/proc/kpageflags";
  /// Totals for each mapping, readable by every user. They give the size of pages only if all pages of a mapping are
  /// alike.
  std::string mappings = "/proc/self/smaps";
};

/// Records frames and sizes of the snapshot's pages as far as they can be known. frames_unknown and huge_unknown
/// receive the reasons for those that cannot. The blocks must belong to this process and have been touched. A page may
/// move at any later time. Linear in the pages, and in the pages of the process if only `mappings` is readable.
void find_frames(snapshot& s, const page_sources& from = {});

}  // namespace espalier::inspect
