#pragma once

#include <atomic>
#include <cstddef>
#include <limits>

namespace espalier::preload {

/// Pages straight from the kernel, counted, up to a limit. Sizes are whole pages, alignments powers of two of at
/// least one. A page lies on the NUMA node of the thread that touches it first. Any thread; errno is kept.
class page_source {
 public:
  constexpr page_source() noexcept = default;

  /// Bytes that may be had at once; what is there already stays.
  void set_limit(std::size_t bytes) noexcept { limit_.store(bytes, std::memory_order_relaxed); }

  /// Zeroed; at `near` if nothing is there, which may be null. Null where the kernel or the limit refuses.
  [[nodiscard]] void* map(std::size_t bytes, std::size_t align, void* near = nullptr) noexcept;
  /// Addresses without memory.
  [[nodiscard]] void* reserve(std::size_t bytes, std::size_t align) noexcept;
  /// Gives reserved addresses memory, zeroed where they had none.
  [[nodiscard]] bool make_usable(void* pages, std::size_t bytes) noexcept;
  /// Moves the memory of pages, its contents included, to reserved addresses; where it lay nothing is left. False
  /// with nothing changed. Both are counted on.
  [[nodiscard]] bool move(void* from, std::size_t bytes, void* to, std::size_t to_bytes) noexcept;
  void unmap(void* pages, std::size_t bytes) noexcept;

  /// Gives the memory back and keeps the addresses: zeroed when they are next touched.
  static void discard(void* pages, std::size_t bytes) noexcept;
  /// Has pages mapped before somebody touches them; their contents stay.
  static void touch(void* pages, std::size_t bytes) noexcept;
  static void advise_huge(void* pages, std::size_t bytes) noexcept;

  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_.load(std::memory_order_relaxed); }

 private:
  void* take(std::size_t bytes, std::size_t align, int access, void* near) noexcept;

  // relaxed: figures that guard no data.
  std::atomic<std::size_t> bytes_{0};
  std::atomic<std::size_t> limit_{std::numeric_limits<std::size_t>::max()};
};

}  // namespace espalier::preload
