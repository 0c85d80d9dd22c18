#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "espalier/inspect/snapshot.hpp"
#include "espalier/programs/code_names.hpp"

namespace espalier::programs {

/// The call stacks behind the types of a snapshot of a running program.
struct call_sites {
  std::vector<code_module> modules;
  /// One per type; frames innermost first.
  std::vector<std::vector<code_frame>> sites;
};

/// Reads the call sites from a snapshot's file. There are no sites if the snapshot is not of that kind. Throws as
/// inspect::read_snapshot() does, and also if a frame names a module that does not exist.
[[nodiscard]] call_sites read_call_sites(const std::filesystem::path& from);

/// How much of a heap was named, in bytes requested.
struct naming {
  std::uint64_t by_debug_info = 0;    ///< "function (file:line)"
  std::uint64_t by_symbol_table = 0;  ///< "function (module)"
  std::uint64_t by_caller = 0;  ///< "function (module) > module+0x...": the nearest caller that has a name
  std::uint64_t by_unwind_table = 0;  ///< "module+0x...", the start of the function
  std::uint64_t unnamed = 0;          ///< "module+0x...", an address within the function

  [[nodiscard]] std::uint64_t all() const {
    return by_debug_info + by_symbol_table + by_caller + by_unwind_table + unnamed;
  }
  bool operator==(const naming&) const = default;
};

/// True if a function only passes memory on, judged by its short name: the malloc family, operator new, whatever of the
/// standard library allocates, functions named after an allocator (xmalloc, PyObject_Malloc, g_strdup).
[[nodiscard]] bool is_allocator_name(std::string_view function);

/// Names the types of a snapshot after the code that needs the memory. Types that then have the same name are merged,
/// and those without blocks are dropped. The name of a site is that of its first place
///   1. that is not an allocator by name, and
///   2. whose function is not an allocator by behaviour: across the sites that lead there it allocates at least 4 sizes
///      for at least 4 callers.
/// If rule 2 leaves nothing, it is the first place by rule 1, or the outermost of all. Inlined functions count as
/// separate places. A place of a stripped module is named with the nearest caller that has a name, unless every program
/// or thread begins at that caller. The snapshot and the sites must be of one file; throws std::invalid_argument if
/// their numbers differ. n log n in the blocks.
naming name_types(inspect::snapshot& s, const call_sites& sites, code_names& names);

/// Called before the places of each site are resolved, which takes most of the time.
using naming_progress = std::function<void(std::size_t sites_done, std::size_t sites)>;

/// The same for several snapshots of one process, in their order, and the sites of the last. A site has one name in all
/// of them, based on its function's behaviour in all of them. Returns how much of each was named.
std::vector<naming> name_types(std::span<inspect::snapshot* const> snapshots, const call_sites& sites,
                               code_names& names, const naming_progress& progress = {});

}  // namespace espalier::programs
