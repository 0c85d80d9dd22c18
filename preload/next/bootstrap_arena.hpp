#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>

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

}  // namespace espalier::preload
