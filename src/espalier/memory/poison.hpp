#pragma once

// Tells AddressSanitizer which bytes of an arena are free, so that it reports accesses to freed blocks. Without the
// sanitizer it compiles to nothing.

#include <cstddef>

#include "espalier/hw/instrumentation.hpp"

#if defined(ESPALIER_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>
#endif

namespace espalier {

inline void poison([[maybe_unused]] const void* memory, [[maybe_unused]] std::size_t bytes) noexcept {
#if defined(ESPALIER_ADDRESS_SANITIZER)
  ASAN_POISON_MEMORY_REGION(memory, bytes);
#endif
}

inline void unpoison([[maybe_unused]] const void* memory, [[maybe_unused]] std::size_t bytes) noexcept {
#if defined(ESPALIER_ADDRESS_SANITIZER)
  ASAN_UNPOISON_MEMORY_REGION(memory, bytes);
#endif
}

}  // namespace espalier
