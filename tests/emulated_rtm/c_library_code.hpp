#pragma once

#include <cstdint>

namespace espalier::emulated_rtm {

/// Before is_of_c_library() is asked: it answers no until then.
void find_c_library() noexcept;

/// Whether the C library's own instructions are there. It copies, compares and searches by other ones where the
/// processor has transactions than where it has none; those of this processor are forgiven what the others avoid.
[[nodiscard]] bool is_of_c_library(std::uintptr_t address) noexcept;

}  // namespace espalier::emulated_rtm
