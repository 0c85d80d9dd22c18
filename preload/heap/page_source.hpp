#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
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
  /// Adds zeroed pages behind some that were mapped, where nothing lies there. False with nothing changed.
  [[nodiscard]] bool grow(void* pages, std::size_t bytes, std::size_t to_bytes) noexcept;
  /// Moves pages with their contents to where others are mapped, which are at least as many and have not been used: the
  /// rest of those stay, zeroed. Nothing is left at `from`, where any mapping may lie by the time of the return. False
  /// where the kernel refuses: then nothing has moved, and the pages at `to` are unmapped.
  [[nodiscard]] bool move(void* from, std::size_t bytes, void* to, std::size_t to_bytes) noexcept;
  /// What became of pages at `to` that transfer() was called for.
  enum class transferred : std::uint8_t {
    done,
    refused,  ///< the pages at `to` are as they were, or zero; those at `from` keep their memory
    lost,     ///< another mapping may lie there: they are not to be used, and not to be unmapped
  };
  /// Moves the memory of free pages of one mapping to others, which have none. All stay mapped; those at `from` are zero
  /// then, and the first page at `to` may be. Refused where either are locked (mlock). Behind the first refusal, as by a
  /// kernel that knows no such move, this process is refused always.
  [[nodiscard]] transferred transfer(void* from, void* to, std::size_t bytes) noexcept;
  /// False with nothing changed: the kernel splits no mapping when it has too many.
  bool unmap(void* pages, std::size_t bytes) noexcept;

  /// Returns the memory to the system and keeps the addresses: the pages are zero when they are next touched. False where
  /// the system refuses, as it does for locked memory: some of them may have their old contents then.
  [[nodiscard]] static bool discard(void* pages, std::size_t bytes) noexcept;
  /// Has pages mapped before a thread touches them; their contents stay.
  static void touch(void* pages, std::size_t bytes) noexcept;
  static void advise_huge(void* pages, std::size_t bytes) noexcept;

  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_.load(std::memory_order_relaxed); }

 private:
  [[nodiscard]] bool count(std::size_t bytes) noexcept;

  // relaxed: figures that guard no data.
  std::atomic<std::size_t> bytes_{0};
  std::atomic<std::size_t> limit_{std::numeric_limits<std::size_t>::max()};
  std::atomic<bool> transfers_{true};
};

}  // namespace espalier::preload
