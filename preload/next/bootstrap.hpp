#pragma once

// The malloc family's behaviour while the next allocator is unknown, and the treatment of blocks from that time.

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "preload/kernel/pages.hpp"
#include "preload/next/next_malloc.hpp"

namespace espalier::preload {

/// A small arena for allocations before the next allocator is known: the search for it may allocate. Blocks are never
/// freed. Any thread; wait-free. Never destroyed.
class bootstrap_arena {
 public:
  /// Zeroed. Null where the arena is used up, or the alignment is not a power of two.
  [[nodiscard]] void* allocate(std::size_t bytes, std::size_t align = header) noexcept {
    if (align == 0 || (align & (align - 1)) != 0 || bytes > room || align > room) return nullptr;
    if (align < header) align = header;
    const std::size_t reserved = (bytes + header - 1) / header * header + header + align;
    // relaxed: each caller only needs bytes of its own.
    const std::size_t from = used_.fetch_add(reserved, std::memory_order_relaxed);
    if (from > room || reserved > room - from) return nullptr;
    const auto base = reinterpret_cast<std::size_t>(memory_.data());
    const std::size_t block = (base + from + header + align - 1) / align * align - base;
    std::memcpy(memory_.data() + block - sizeof bytes, &bytes, sizeof bytes);
    return memory_.data() + block;
  }

  [[nodiscard]] bool contains(const void* block) const noexcept {
    return static_cast<std::size_t>(static_cast<const std::byte*>(block) - memory_.data()) < room;
  }
  /// The number of bytes with which a block of the arena was allocated.
  [[nodiscard]] std::size_t bytes(const void* block) const noexcept {
    std::size_t stored = 0;
    std::memcpy(&stored, static_cast<const std::byte*>(block) - sizeof stored, sizeof stored);
    return stored;
  }

 private:
  static constexpr std::size_t header = 16;
  static constexpr std::size_t room = std::size_t{1} << 16U;

  alignas(64) std::array<std::byte, room> memory_{};
  std::atomic<std::size_t> used_{0};
};

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
