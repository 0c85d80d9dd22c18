#pragma once

// Two sections more in the file of a snapshot whose types are call sites (snapshot_format.hpp has the
// others): the frames that stand behind each type, for whoever gives it a name. Both may be skipped.
//
//   modules  their number; then of each its path and its build id, a text of bytes and empty where it has none
//   sites    their number, as many as there are types; then of each the number of its frames, innermost first, and
//            of each frame u32 module, an index in modules or no_module, and u64 address: the return address as
//            the module's file has it, or as the process has it where it lies in no module

#include <cstdint>

namespace espalier::inspect::format {

inline constexpr std::uint32_t modules_tag = 256;
inline constexpr std::uint32_t sites_tag = 257;
inline constexpr std::uint32_t no_module = ~std::uint32_t{0};

}  // namespace espalier::inspect::format
