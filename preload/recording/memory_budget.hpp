#pragma once

#include <atomic>
#include <cstddef>
#include <limits>

namespace espalier::preload {

/// Bounded memory for the data about a program's blocks. It comes directly from the kernel, so the program's
/// allocator is not affected. Any thread, any time, signal handlers included. errno is preserved.
class memory_budget {
 public:
  constexpr memory_budget() noexcept = default;
  explicit constexpr memory_budget(std::size_t limit) noexcept : limit_(limit) {}

  /// The most bytes that may be mapped at once; what is mapped already stays.
  void set_limit(std::size_t bytes) noexcept { limit_.store(bytes, std::memory_order_relaxed); }

  /// Zeroed pages, or null where the kernel or the limit refuses.
  [[nodiscard]] void* map(std::size_t bytes) noexcept;
  void unmap(void* pages, std::size_t bytes) noexcept;

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
