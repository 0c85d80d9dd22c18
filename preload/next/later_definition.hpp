#pragma once

namespace espalier::preload {

/// The C library's function of this name, or that of a library between this one and the C library. It is the result
/// of dlsym(RTLD_NEXT, name), in the default version. Null where there is none, and for functions chosen by processor
/// (IFUNC). Takes no lock, allocates nothing and stores nothing. So it may be called in a signal handler, in a child
/// that shares its parent's memory, and while the process ends. Linear in the libraries between.
[[nodiscard]] void* later_definition(const char* name) noexcept;

}  // namespace espalier::preload
