#pragma once

namespace espalier::preload {

/// The next definition of an operator new or delete, by its mangled name: after the caller's library in the dynamic
/// linker's order, or in a C++ library that a plug-in brought. Without one the process ends with a line that says so:
/// a program without a C++ library calls no operators. May allocate.
[[nodiscard]] void* next_operator_named(const char* name) noexcept;

}  // namespace espalier::preload
