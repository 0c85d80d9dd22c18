#pragma once

#include <atomic>
#include <cstddef>

namespace espalier::preload {

/// The allocator that the program would have without this library: the next definition of each function in the
/// dynamic linker's order. A function pointer is null where that allocator has no such function.
struct next_malloc {
  void* (*malloc)(std::size_t);
  void* (*calloc)(std::size_t, std::size_t);
  void* (*realloc)(void*, std::size_t);
  void* (*reallocarray)(void*, std::size_t, std::size_t);
  void (*free)(void*);
  int (*posix_memalign)(void**, std::size_t, std::size_t);
  void* (*aligned_alloc)(std::size_t, std::size_t);
  void* (*memalign)(std::size_t, std::size_t);
  void* (*valloc)(std::size_t);
  void* (*pvalloc)(std::size_t);
  std::size_t (*malloc_usable_size)(void*);
};

/// The definition of a function after this library's; null where there is none.
void* next_definition(const char* name) noexcept;

extern constinit std::atomic<const next_malloc*> known_next;
[[nodiscard]] const next_malloc* look_up_next() noexcept;

/// Null while the functions are being looked up, by this thread or, in its first instants, by another. The bootstrap
/// arena then serves allocations.
[[nodiscard]] inline const next_malloc* next() noexcept {
  // order: next (acquire) -> look_up_next (release)
  const next_malloc* const known = known_next.load(std::memory_order_acquire);
  return known != nullptr ? known : look_up_next();
}

}  // namespace espalier::preload
