#pragma once

namespace espalier::preload {

/// The C library's function of this name, or the one of a library between this and the C library: as
/// dlsym(RTLD_NEXT, name) finds it, in its default version. Null where there is none, and for functions that are chosen
/// by processor (IFUNC). Takes no lock, allocates and remembers nothing, so that it may be asked in a signal handler, in
/// a child that shares its parent's memory, and as late as the process ends. Linear in the libraries between.
[[nodiscard]] void* later_definition(const char* name) noexcept;

}  // namespace espalier::preload
