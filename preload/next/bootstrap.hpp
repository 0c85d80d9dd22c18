#pragma once

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "preload/kernel/page_bytes.hpp"
#include "preload/next/bootstrap_arena.hpp"
#include "preload/next/next_malloc.hpp"

// The malloc family's behaviour while the next allocator is unknown, and the treatment of blocks from that time.

namespace espalier::preload {

/// Each library has its own.
inline constinit bootstrap_arena bootstrap;

inline void* out_of_memory() noexcept {
  errno = ENOMEM;
  return nullptr;
}

inline void* from_bootstrap(std::size_t bytes, std::size_t align = 1) noexcept {
  void* const block = bootstrap.allocate(bytes, align);
  return block != nullptr ? block : out_of_memory();
}

inline void* array_from_bootstrap(std::size_t count, std::size_t size) noexcept {
  std::size_t bytes = 0;
  return __builtin_mul_overflow(count, size, &bytes) ? out_of_memory() : from_bootstrap(bytes);
}

inline int aligned_from_bootstrap(void** block, std::size_t align, std::size_t bytes) noexcept {
  *block = bootstrap.allocate(bytes, align);
  return *block == nullptr ? ENOMEM : 0;
}

inline void* pages_from_bootstrap(std::size_t bytes) noexcept {
  return bytes > static_cast<std::size_t>(-1) - page_bytes
             ? out_of_memory()
             : from_bootstrap(rounded_up(bytes, page_bytes), page_bytes);
}

/// Moves a block of the bootstrap arena to the allocator, or within the arena while there is none.
inline void* moved_from_bootstrap(const next_malloc* to, void* old, std::size_t bytes) noexcept {
  const std::size_t before = bootstrap.bytes(old);
  void* const block = to != nullptr ? to->malloc(bytes) : from_bootstrap(bytes);
  if (block != nullptr) std::memcpy(block, old, bytes < before ? bytes : before);
  return block;
}

}  // namespace espalier::preload
