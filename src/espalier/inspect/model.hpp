#pragma once

// Layouts computed without a machine: the addresses that an allocator of size classes gives to a program which
// allocates blocks of a few types in a fixed order, again and again. As in the study, a size class is an array of
// blocks of its size, handed out one after the other (ATC 2018, section 3.2.1). The patterns by which the study
// explains its anomalies are here by name, so that the analysis can be compared with the study's figures, and a
// program's layout with the patterns. A placement can also perform the allocations of a pattern.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/inspect/snapshot.hpp"
#include "espalier/memory/any_placement.hpp"
#include "espalier/memory/placement_concept.hpp"

namespace espalier::inspect {

/// A type, and the letter that stands for it in a pattern's order.
struct model_object {
  char letter = '\0';
  std::uint32_t bytes = 0;
  block_type type;
};

/// Where the model's pages lie in physical memory.
enum class frame_model : std::uint8_t {
  contiguous,  // one after the other
  huge,        // huge pages, each at a random place
  scattered,   // pages of 4 KiB, each at a random place
};

struct allocator_model {
  /// Ascending. A block is held in the first class that is large enough. A block larger than all classes is held in its
  /// own size rounded up to 16, and so is every block if there are no classes.
  std::vector<std::uint32_t> classes;
  /// True: blocks of a class fill pages of 4 KiB; a class takes the next unused page when its last one is full. False:
  /// all blocks are contiguous, whatever their class.
  bool paged = false;
  /// Bytes at the front of each such page that the allocator reserves.
  std::uint32_t header = 0;
  /// Each type has an allocator of its own.
  bool segregated = false;
  /// Percentage of allocations that are preceded by an extra block of 64 bytes of no type.
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

/// Throws std::invalid_argument that names the available patterns.
[[nodiscard]] const allocation_pattern& allocation_pattern_named(std::string_view name);

/// The order as indices of the objects. Throws std::invalid_argument if it contains a letter without an object.
[[nodiscard]] std::vector<type_index> order_of(const allocation_pattern& pattern);

/// The order, repeated `rounds` times, as a snapshot with known frames. The same seed gives the same random choices.
/// Throws std::invalid_argument if the order contains a letter without an object, or if a block does not fit a page of
/// the model. n log n in the blocks.
[[nodiscard]] snapshot lay_out(const allocation_pattern& pattern, std::uint64_t rounds,
                               std::uint64_t seed = 1);

/// Performs the allocations of a pattern. It shows how a placement lays out the blocks of a program that allocates a
/// few types in a fixed order, where lay_out() models an allocator of size classes. It writes to the blocks
/// and holds them until its destruction.
///
/// Types are separate where a placement separates roles. The object called "node" has the role node; the others take
/// the remaining roles in turn, so that no two of one size share a role in the patterns that ship.
class played_pattern {
 public:
  /// Plays the order `rounds` times, in the calling thread. The placement must outlive this object. The same seed gives
  /// the same random choices. Throws std::bad_alloc, and std::invalid_argument if the order contains a letter without
  /// an object.
  played_pattern(const allocation_pattern& pattern, std::uint64_t rounds, any_placement& from,
                 std::uint64_t seed = 1);
  played_pattern(const played_pattern&) = delete;
  played_pattern& operator=(const played_pattern&) = delete;
  ~played_pattern();

  /// The addresses of the blocks, with frames as far as the kernel shows them.
  [[nodiscard]] snapshot layout() const;

 private:
  struct allocation {
    void* memory;
    type_index type;
  };

  [[nodiscard]] block request(type_index type) const noexcept;
  void free_all() noexcept;

  const allocation_pattern& pattern_;
  any_placement& from_;
  std::vector<allocation> blocks_;
  std::vector<void*> extra_;
};

}  // namespace espalier::inspect
