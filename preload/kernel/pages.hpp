#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <limits>

#include "preload/kernel/saved_errno.hpp"

namespace espalier::preload {

/// The size of a page on x86-64, the only architecture of preload/.
inline constexpr std::size_t page_bytes = 4096;

[[nodiscard]] constexpr std::size_t rounded_up(std::size_t bytes, std::size_t power_of_two) noexcept {
  return (bytes + power_of_two - 1) & ~(power_of_two - 1);
}

/// Bounded memory for the data about a program's blocks. It comes directly from the kernel, so the program's
/// allocator is not affected. Any thread, any time, signal handlers included. errno is preserved.
class memory_budget {
 public:
  constexpr memory_budget() noexcept = default;
  explicit constexpr memory_budget(std::size_t limit) noexcept : limit_(limit) {}

  /// The most bytes that may be mapped at once; what is mapped already stays.
  void set_limit(std::size_t bytes) noexcept { limit_.store(bytes, std::memory_order_relaxed); }

  /// Zeroed pages, or null where the kernel or the limit refuses.
  [[nodiscard, gnu::noinline]] void* map(std::size_t bytes) noexcept {
    if (bytes == 0 || bytes > std::numeric_limits<std::size_t>::max() - page_bytes) return nullptr;
    bytes = rounded_up(bytes, page_bytes);
    const std::size_t limit = limit_.load(std::memory_order_relaxed);
    const std::size_t before = bytes_.fetch_add(bytes, std::memory_order_relaxed);
    if (bytes <= limit && before <= limit - bytes) {
      const saved_errno keep;
      void* const pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (pages != MAP_FAILED) return pages;
    }
    bytes_.fetch_sub(bytes, std::memory_order_relaxed);
    return nullptr;
  }
  [[gnu::noinline]] void unmap(void* pages, std::size_t bytes) noexcept {
    if (pages == nullptr) return;
    bytes = rounded_up(bytes, page_bytes);
    const saved_errno keep;
    munmap(pages, bytes);
    bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  }

  /// An array of `Count` zeroed elements whose all-zero bytes are a valid state.
  template <class T>
  [[nodiscard]] T* map_array(std::size_t count) noexcept {
    if (count > std::numeric_limits<std::size_t>::max() / sizeof(T)) return nullptr;
    return static_cast<T*>(map(count * sizeof(T)));
  }
  template <class T>
  void unmap_array(T* pages, std::size_t count) noexcept {
    unmap(pages, count * sizeof(T));
  }

  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_.load(std::memory_order_relaxed); }

 private:
  // relaxed: figures that guard no data.
  std::atomic<std::size_t> bytes_{0};
  std::atomic<std::size_t> limit_{std::numeric_limits<std::size_t>::max()};
};

}  // namespace espalier::preload
