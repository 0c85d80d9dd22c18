#pragma once

#include <cstdint>
#include <vector>

#include "espalier/inspect/model.hpp"
#include "espalier/inspect/snapshot.hpp"
#include "espalier/memory/any_placement.hpp"
#include "espalier/memory/placement_concept.hpp"

namespace espalier::inspect {

/// The allocations of a pattern made for real: what a placement makes of the order in which a program allocates
/// blocks of a few types, where lay_out() (model.hpp) says what an allocator of size classes would. Holds the
/// blocks, which it has written to, until it dies.
///
/// Types are apart where a placement keeps roles apart: the object called "node" has the role node, the others
/// take the remaining roles in turns, so that no two of one size share a role in the patterns that ship.
class played_pattern {
 public:
  /// The order, `rounds` times over, by the calling thread. The placement must outlive this. What is random is the
  /// same for the same seed. Throws std::bad_alloc, and std::invalid_argument where the order has a letter
  /// without an object.
  played_pattern(const allocation_pattern& pattern, std::uint64_t rounds, any_placement& from,
                 std::uint64_t seed = 1);
  played_pattern(const played_pattern&) = delete;
  played_pattern& operator=(const played_pattern&) = delete;
  ~played_pattern();

  /// Where the blocks lie, frames as the kernel tells them.
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
