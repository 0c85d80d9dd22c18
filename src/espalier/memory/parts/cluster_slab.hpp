#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "espalier/memory/parts/slab.hpp"
#include "espalier/memory/placement_concept.hpp"
#include "espalier/sync/per_thread.hpp"

namespace espalier {

// Orderings
//   (1) give (acq_rel) -> take (acquire): the old uses of a block end before it is used again.
//   (2) give (acq_rel) -> give (acq_rel): the thread that frees the last block of a cluster reuses the cluster after
//       all uses of all its blocks.

/// Blocks of one size, a few to a cluster of whole cache lines. A block is placed beside the block that the request
/// names as `near`. If there is no room, or `near` names none, it opens a cluster of its own and leaves the rest to
/// later requests that name it.
///
/// For the routers of a search tree, each near its parent, this puts most steps of a seek into a line that the
/// step before has fetched: the first child router of each parent lies beside it, and the first child tends to head
/// the larger subtree. The cost is the room that no request asks for.
///
/// A cluster is free for reuse as a whole when its last block is freed.
class cluster_slab {
 public:
  /// `slots` blocks of block_bytes each make a cluster: 2 to 8, and together a power of two of bytes.
  cluster_slab(std::size_t block_bytes, unsigned slots) : cluster_slab(split_block{block_bytes, 0}, slots) {}
  /// The same of split blocks: clusters are of their fronts.
  cluster_slab(const split_block& shape, unsigned slots);

  /// If `near` lies in this slab, it is a block in use; any other address counts as null. Throws
  /// std::bad_alloc with nothing changed.
  [[nodiscard]] void* allocate(const void* near);
  void deallocate(void* memory) noexcept;
  [[nodiscard]] memory_usage usage() const noexcept;

 private:
  // The free slots of a cluster while others are in use. Zero for a cluster that is full, or wholly free: requests
  // find a slot through a neighbour in use, so none looks for room in an empty cluster.
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
