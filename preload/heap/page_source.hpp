#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace espalier::preload {

[[nodiscard]] inline std::uintptr_t address(const void* pointer) noexcept {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

/// Pages directly from the kernel, counted, up to a limit. Sizes are whole pages; alignments are powers of two of at
/// least one page. A page lies on the NUMA node of the thread that touches it first. Any thread; errno is preserved.
/// relaxed throughout: the figures and the switch guard no data.
class page_source {
 public:
  constexpr page_source() noexcept = default;

  /// The most bytes that may be mapped at once; what is mapped already stays.
  void set_limit(std::size_t bytes) noexcept { limit_.store(bytes, std::memory_order_relaxed); }

  /// Zeroed pages, at `near` if that is free; `near` may be null. Null where the kernel or the limit refuses.
  [[nodiscard]] void* map(std::size_t bytes, std::size_t align, void* near = nullptr) noexcept;
  /// Extends mapped pages in place by zeroed ones, if the addresses after them are free. False with nothing changed.
  [[nodiscard]] bool grow(void* pages, std::size_t bytes, std::size_t to_bytes) noexcept;
  /// Moves pages with their contents to `to`, where at least as many are mapped and unused; the rest of those
  /// stay, zeroed. Nothing stays mapped at `from`, where any mapping may lie when the function returns. False
  /// where the kernel refuses: then nothing has moved, and the pages at `to` are unmapped.
  [[nodiscard]] bool move(void* from, std::size_t bytes, void* to, std::size_t to_bytes) noexcept;
  /// The state of the pages at `to` after transfer().
  enum class transferred : std::uint8_t {
    done,
    refused,  ///< the pages at `to` are as they were, or zero; those at `from` keep their memory
    lost,     ///< another mapping may lie there: they must be neither used nor unmapped
  };
  /// Moves the memory of free pages of one mapping to pages that have none. All stay mapped; then those at
  /// `from` are zero, and the first page at `to` may be. Refused where any of them are locked (mlock). After
  /// the first refusal, as by a kernel without this move, all further calls of the process are refused.
  [[nodiscard]] transferred transfer(void* from, void* to, std::size_t bytes) noexcept;
  /// False with nothing changed: the kernel splits no mapping when the process has too many.
  bool unmap(void* pages, std::size_t bytes) noexcept;

  /// Returns the memory to the OS and keeps the addresses: the pages are zero when they are next touched.
  /// False where the OS refuses, as for locked memory: then some pages may keep their contents.
  [[nodiscard]] static bool discard(void* pages, std::size_t bytes) noexcept;
  /// Has the kernel map the pages before a thread touches them; their contents stay.
  static void touch(void* pages, std::size_t bytes) noexcept;
  static void advise_huge(void* pages, std::size_t bytes) noexcept;

  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_.load(std::memory_order_relaxed); }

 private:
  [[nodiscard]] bool count(std::size_t bytes) noexcept;

  std::atomic<std::size_t> bytes_{0};
  std::atomic<std::size_t> limit_{std::numeric_limits<std::size_t>::max()};
  std::atomic<bool> transfers_{true};
};

}  // namespace espalier::preload
