#pragma once

#include <cstdint>
#include <vector>

#include "espalier/inspect/model.hpp"
#include "espalier/inspect/snapshot.hpp"
#include "espalier/memory/any_placement.hpp"
#include "espalier/memory/placement_concept.hpp"

namespace espalier::inspect {

/// Performs the allocations of a pattern. It shows how a placement lays out the blocks of a program that allocates a
/// few types in a fixed order, where lay_out() (model.hpp) models an allocator of size classes. It writes to the blocks
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

  /// The addresses of the blocks, with frames as far as the kernel tells them.
  [[nodiscard]] snapshot layout() const;

 private:
  struct allocation {
    void* memory;
    type_index type;
  };

  [[nodiscard]] block request(type_index type) const noexcept;
  void give_back() noexcept;

  const allocation_pattern& pattern_;
  any_placement& from_;
  std::vector<allocation> blocks_;
  std::vector<void*> extra_;
};

}  // namespace espalier::inspect
