#pragma once

namespace espalier::preload {

/// Writes one line to standard error, "espalier: <what> 0x<address>", and calls abort(): the program freed an
/// invalid pointer. glibc does the same. Allocates nothing.
[[noreturn]] void misused(const char* what, const void* address) noexcept;

}  // namespace espalier::preload
