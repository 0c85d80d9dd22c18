#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "espalier/memory/placement_concept.hpp"
#include "espalier/memory/slab.hpp"
#include "espalier/memory/split_block.hpp"
#include "espalier/sync/striped_counter.hpp"

namespace espalier {

/// Blocks of one size, a few to a cluster of whole cache lines, in which a block finds room beside the one
/// that it is asked for near. A block that finds none there, or names none, opens a cluster of its own and
/// leaves the rest of it to those that will name it.
///
/// For the routers of a search tree, each near its parent, this puts most steps of a descent into a line
/// that the step before has fetched: the first child router of each parent lies beside it, and the first
/// child tends to head the larger subtree. What it costs is the room that nobody asks for.
///
/// A cluster goes back for reuse as a whole when its last block does.
class cluster_slab {
 public:
  /// `slots` blocks of block_bytes each make a cluster: 2 to 8, and together a power of two of bytes.
  cluster_slab(std::size_t block_bytes, unsigned slots) : cluster_slab(split_block{block_bytes, 0}, slots) {}
  /// The same of split blocks: clusters are of their fronts.
  cluster_slab(const split_block& shape, unsigned slots);

  /// `near`, where it lies in this slab, is a block in use; anything else is as good as null. Throws
  /// std::bad_alloc with nothing changed.
  [[nodiscard]] void* allocate(const void* near);
  void deallocate(void* memory) noexcept;
  [[nodiscard]] memory_usage usage() const noexcept;

 private:
  // Which slots of a cluster are free while others are in use. Zero for a cluster that is full, or wholly
  // free: blocks are found through their neighbours only, so nobody looks for room in an empty cluster.
  using free_mask = std::atomic<std::uint8_t>;

  [[nodiscard]] free_mask* mask_of(const void* memory) noexcept;
  [[nodiscard]] void* take_beside(const void* near) noexcept;
  [[nodiscard]] unsigned slot_of(const void* memory) const noexcept;
  [[nodiscard]] std::byte* cluster_of(const void* memory) const noexcept;

  void hand_out(void* memory) noexcept;
  void take_back(void* memory) noexcept;

  const split_block shape_;
  const unsigned slots_;
  const std::uint8_t all_free_;
  slab clusters_;
  striped_counter blocks_;
};

}  // namespace espalier
