#pragma once

// Which types lie where in the address space: what figures 6 and 7 of ATC 2018 draw of one type, of all at once.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "espalier/inspect/snapshot.hpp"

namespace espalier::inspect {

/// Bytes are those that programs asked for; a block of none counts as one.
struct page_map {
  struct part {
    type_index type = 0;
    std::uint64_t bytes = 0;
    bool operator==(const part&) const = default;
  };

  /// Pages of consecutive numbers, the first a multiple of their count.
  struct cell {
    std::uint64_t first_page = 0;
    /// In which blocks have bytes, and in how many of these several types have.
    std::uint64_t pages = 0;
    std::uint64_t mixed_pages = 0;
    std::uint64_t bytes = 0;
    std::uint64_t types = 0;
    /// The types with the most bytes, most first.
    std::vector<part> most;
    bool operator==(const cell&) const = default;
  };

  /// A power of two.
  std::uint64_t pages_per_cell = 1;
  /// Those with blocks, ascending.
  std::vector<cell> cells;
};

struct page_map_options {
  /// A cell holds as few pages as make do with so many, at least one.
  std::size_t most_cells = 4096;
  /// How many types a cell lists.
  std::size_t types_per_cell = 4;
};

/// The snapshot must be valid. Linear in blocks and pages; n log n in the types of a cell.
[[nodiscard]] page_map map_pages(const snapshot& s, const page_map_options& options = {});

}  // namespace espalier::inspect
