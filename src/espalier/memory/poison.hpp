#pragma once

#include <cstddef>

// Tells AddressSanitizer which bytes of an arena are free, so that it reports accesses to blocks that were
// given back. Compiles to nothing without it.

#if defined(__SANITIZE_ADDRESS__)
#define ESPALIER_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ESPALIER_ADDRESS_SANITIZER 1
#endif
#endif

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
