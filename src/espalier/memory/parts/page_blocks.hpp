#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "espalier/hw/cache_line.hpp"
#include "espalier/hw/fork_recovery.hpp"
#include "espalier/hw/pages.hpp"
#include "espalier/memory/placement_concept.hpp"
#include "espalier/sync/ttas_lock.hpp"

namespace espalier {

// Orderings
//   (1) link (release) -> recover_in_child (fork): a child finds only complete headers in the list, wherever the fork
//       stopped the thread.
//   (2) unlink (release) -> recover_in_child (fork): a block leaves the list before its header gives up its pages.
// These fences bind the compiler only; the lock orders the threads.

/// Large blocks, each in pages of its own, which return to the OS with it. In front of a block, at an address that is
/// a multiple of front_align and less than that away, lies a zeroed line, in which the layer above may note the owner
/// of the block.
///
/// An operation is a system call and a lock.
class page_blocks {
 public:
  /// front_align: a power of two, of at least a page. With a NUMA node (the operating system's index), pages
  /// are bound to it as far as the system allows. With `huge`, the kernel is advised to back what fills huge pages with those.
  explicit page_blocks(std::size_t front_align, std::optional<unsigned> numa_node = std::nullopt,
                       bool huge = false) noexcept
      : front_align_(front_align), numa_node_(numa_node), huge_(huge) {}
  page_blocks(const page_blocks&) = delete;
  page_blocks& operator=(const page_blocks&) = delete;
  /// Returns every page to the OS, blocks in use included.
  ~page_blocks();

  /// The block begins at a multiple of `align`, which is at most half of front_align. It begins at least `offset`
  /// bytes, less than half of front_align too, behind the beginning of the line in front. Throws std::bad_alloc with
  /// nothing changed, also for a larger alignment.
  [[nodiscard]] void* allocate(std::size_t bytes, std::size_t align, std::size_t offset = 0);
  void deallocate(void* memory) noexcept;

  [[nodiscard]] void* front_of(const void* memory) const noexcept {
    return std::bit_cast<void*>(std::bit_cast<std::uintptr_t>(memory) & ~(front_align_ - 1));
  }
  /// Bytes that the block may use.
  [[nodiscard]] std::size_t block_bytes(const void* memory) const noexcept;
  [[nodiscard]] memory_usage usage() const noexcept;

 private:
  struct header {
    hw::page_run pages;
    std::size_t block_bytes;
    std::size_t reserved_bytes;
    header* before;
    header* after;
  };

  [[nodiscard]] header* header_of(const void* memory) const noexcept {
    return reinterpret_cast<header*>(static_cast<std::byte*>(front_of(memory)) + hw::cache_line_bytes);
  }

  void recover_in_child() noexcept;

  const std::size_t front_align_;
  const std::optional<unsigned> numa_node_;
  const bool huge_;
  mutable ttas_lock lock_;
  header* blocks_ = nullptr;
  memory_usage usage_;
  hw::fork_link after_fork_{this, [](void* one, const hw::fork_survivor&) noexcept {
                              static_cast<page_blocks*>(one)->recover_in_child();
                            }};
};

}  // namespace espalier
