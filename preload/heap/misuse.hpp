#pragma once

namespace espalier::preload {

/// One line on standard error, "espalier: <what> 0x<address>", and abort(): the program gave back what it did not
/// have. glibc does the same. Allocates nothing.
[[noreturn]] void misused(const char* what, const void* address) noexcept;

}  // namespace espalier::preload
