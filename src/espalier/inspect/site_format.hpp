#pragma once

// Two additional sections in the file of a snapshot whose types are call sites (snapshot_format.hpp has the others).
// They hold the frames behind each type, from which a reader derives its name. Readers may skip both.
//
//   modules  their number; then for each its path and its build id, a text of bytes that is empty if it has none
//   sites    their number, which equals that of the types; then for each the number of its frames, innermost first,
//            and for each frame u32 module, an index in modules or no_module, and u64 address: the return address in
//            the module's file, or in the process if it lies in no module

#include <cstdint>

namespace espalier::inspect::format {

inline constexpr std::uint32_t modules_tag = 256;
inline constexpr std::uint32_t sites_tag = 257;
inline constexpr std::uint32_t no_module = ~std::uint32_t{0};

}  // namespace espalier::inspect::format
