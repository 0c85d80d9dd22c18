#pragma once

namespace espalier::preload {

/// The next definition of an operator new or delete, by its mangled name: behind the caller's library in the order
/// of the dynamic linker, or in a C++ library that came with a plug-in. Without one the process ends with a line
/// that says so: nobody calls operators in a program without a C++ library. May allocate.
[[nodiscard]] void* next_operator_named(const char* name) noexcept;

}  // namespace espalier::preload
