#pragma once

// Layouts without a machine: what an allocator of size classes makes of a program that allocates blocks of a
// few types in a fixed order, again and again. As in the study, a size class is an array of blocks of its
// size, which are handed out one after the other (ATC 2018, section 3.2.1). The patterns that the study
// explains its anomalies by are here by name, so that the analysis can be held against its figures, and read
// beside one's own.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/inspect/snapshot.hpp"

namespace espalier::inspect {

/// A type, and the letter that stands for it in a pattern's order.
struct model_object {
  char letter = '\0';
  std::uint32_t bytes = 0;
  block_type type;
};

/// Where the pages of the model lie in physical memory.
enum class frame_model : std::uint8_t {
  contiguous,  // one behind the other
  huge,        // huge pages, each at a random place
  scattered,   // pages of 4 KiB, each at a random place
};

struct allocator_model {
  /// Ascending; a block is held in the first that is large enough. A block larger than all, and every block
  /// where there are none, is held in its own size rounded up to 16.
  std::vector<std::uint32_t> classes;
  /// Blocks of a class fill pages of 4 KiB, of which a class takes the next that nobody has when its last one
  /// is full. Otherwise all blocks lie end to end, whatever their class.
  bool paged = false;
  /// Bytes at the front of each such page that the allocator keeps.
  std::uint32_t header = 0;
  /// Each type draws from an allocator of its own.
  bool segregated = false;
  /// Percentage of allocations that a further block of 64 bytes precedes, which belongs to no type.
  unsigned extra_percent = 0;
  frame_model frames = frame_model::huge;
};

struct allocation_pattern {
  std::string name;
  std::string description;
  std::vector<model_object> objects;
  /// Letters, such as "ND".
  std::string order;
  allocator_model allocator;
};

/// The patterns that the study describes.
[[nodiscard]] std::span<const allocation_pattern> allocation_patterns();

/// Throws std::invalid_argument that names those there are.
[[nodiscard]] const allocation_pattern& allocation_pattern_named(std::string_view name);

/// The order as positions among the objects. Throws std::invalid_argument where it has a letter without one.
[[nodiscard]] std::vector<type_index> order_of(const allocation_pattern& pattern);

/// The order, `rounds` times over, as a snapshot with known frames. What is random is the same for the same
/// seed. Throws std::invalid_argument where the order has a letter without an object, or where a block does
/// not fit a page of the model. n log n in the blocks.
[[nodiscard]] snapshot lay_out(const allocation_pattern& pattern, std::uint64_t rounds,
                               std::uint64_t seed = 1);

}  // namespace espalier::inspect
