#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/inspect/snapshot.hpp"
#include "espalier/programs/call_sites.hpp"
#include "espalier/programs/code_names.hpp"

namespace espalier::programs {

/// How much of a heap got names, in bytes asked for.
struct naming {
  std::uint64_t by_debug_info = 0;    ///< "function (file:line)"
  std::uint64_t by_symbol_table = 0;  ///< "function (module)"
  std::uint64_t by_caller = 0;  ///< "function (module) > module+0x...": the nearest caller that has a name
  std::uint64_t by_unwind_table = 0;  ///< "module+0x...", where the function begins
  std::uint64_t unnamed = 0;          ///< "module+0x...", somewhere

  [[nodiscard]] std::uint64_t all() const {
    return by_debug_info + by_symbol_table + by_caller + by_unwind_table + unnamed;
  }
  bool operator==(const naming&) const = default;
};

/// True where a function only hands memory on: malloc and its kin, operator new, whatever of the standard
/// library allocates, functions whose name says so (xmalloc, PyObject_Malloc, g_strdup), by short name.
[[nodiscard]] bool is_allocator_name(std::string_view function);

/// Names the types of a snapshot after the code that wanted the memory, and makes one type of those that are then
/// called the same; those without blocks go. The name of a site is that of its first place
///   1. that is no allocator by name, and
///   2. whose function is none by what it does: across the sites that lead there it allocates at least 4 sizes for
///      at least 4 callers,
/// or, where rule 2 leaves nothing, the first by rule 1, or the outermost of all. Inlined functions count as places
/// of their own. A place of a stripped module is named with the nearest caller that has a name, unless that is
/// only where every program or thread begins. The snapshot and the sites must be of one file; throws
/// std::invalid_argument where their numbers differ. n log n in the blocks.
naming name_types(inspect::snapshot& s, const call_sites& sites, code_names& names);

/// Called before the places of each site are looked for, which takes most of the time.
using naming_progress = std::function<void(std::size_t sites_done, std::size_t sites)>;

/// The same for several snapshots of one process, in their order, and the sites of the last: a site has one name in
/// all, by what its function does in all of them. Returns how much of each got names.
std::vector<naming> name_types(std::span<inspect::snapshot* const> snapshots, const call_sites& sites,
                               code_names& names, const naming_progress& progress = {});

}  // namespace espalier::programs
