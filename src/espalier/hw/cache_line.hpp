#pragma once

#if __cplusplus < 202002L
#error "Espalier is written in C++20: compile with -std=c++20 or a later standard"
#endif

#include <cstddef>
#include <cstdint>

// The unit in which caches move memory, and the unit of false sharing.

namespace espalier::hw {

/// Bytes in a cache line of every supported processor. A constant, not std::hardware_*_interference_size:
/// that value may change with a compiler flag, and with it the layout of a public type.
inline constexpr std::size_t cache_line_bytes = 64;

/// Distance at which two written objects share nothing. Twice the line: adjacent-line prefetchers (Intel's
/// spatial prefetcher) fetch aligned pairs of lines.
inline constexpr std::size_t false_sharing_bytes = 2 * cache_line_bytes;

/// Requests the lines of an object that is read soon. They come into the second-level cache: it waits for more lines at a
/// time than the first one. There need not be an object: where a search looks without a lock, a pointer may be null or old.
inline void request_lines(const void* object, std::size_t bytes) noexcept {
  const auto begin = reinterpret_cast<std::uintptr_t>(object);
  for (std::size_t at = 0; at < bytes; at += cache_line_bytes)
    __builtin_prefetch(reinterpret_cast<const void*>(begin + at), 0, 2);
}

/// Requests the line of an object that is written at once: a load before the write would make it come from another
/// processor's cache twice, to be read and to be written.
[[gnu::always_inline]] inline void request_to_write(const void* object) noexcept {
#if defined(__x86_64__)
  // Compilers make a request to read of it, unless they are told that the processor knows this instruction. To one that does
  // not, it is none.
  __asm__ __volatile__("prefetchw %0" : : "m"(*static_cast<const char*>(object)));
#else
  __builtin_prefetch(object, 1);
#endif
}

/// A T with no neighbour inside its pair of lines. For elements of per-thread arrays.
template <class T>
struct alignas(false_sharing_bytes) padded {
  T value{};
};

}  // namespace espalier::hw
