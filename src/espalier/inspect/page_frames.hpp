#pragma once

// Which physical page stands behind each page of this process, and how large it is: what decides in which
// sets of the physically indexed caches a block lies, and how many translations it takes.

#include <string>

#include "espalier/inspect/snapshot.hpp"

namespace espalier::inspect {

/// The kernel's files, or files in their form.
struct page_sources {
  /// A 64-bit word for each virtual page. The kernel shows frames in it to whoever has CAP_SYS_ADMIN.
  std::string pagemap = "/proc/self/pagemap";
  /// A 64-bit word for each frame. Only root reads it.
  std::string page_flags = "/proc/kpageflags";
  /// Totals for each mapping, readable by everyone. They tell the size of pages where all in a mapping are
  /// alike.
  std::string mappings = "/proc/self/smaps";
};

/// Notes frames and sizes of the snapshot's pages as far as they can be known, and in frames_unknown and
/// huge_unknown why those that are not cannot. The blocks must be this process's, and have been touched; a
/// page may be moved at any later time. Linear in the pages, and in the pages of the process where only
/// `mappings` is readable.
void find_frames(snapshot& s, const page_sources& from = {});

}  // namespace espalier::inspect
