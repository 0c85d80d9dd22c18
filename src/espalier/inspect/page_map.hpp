#pragma once

// Which types lie where in the address space. Figures 6 and 7 of ATC 2018 draw this for one type; here it covers all.

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "espalier/inspect/snapshot.hpp"

namespace espalier::inspect {

/// A T for each type that has been requested since clear(), which takes constant time.
template <class T>
class by_type_seen {
 public:
  explicit by_type_seen(std::size_t types) : slots_(types, {0, 0}) {}

  T& operator[](type_index type) {
    slot& s = slots_[type];
    if (s.round != round_) {
      s = {round_, static_cast<std::uint32_t>(seen_.size())};
      seen_.push_back({type, T{}});
    }
    return seen_[s.place].second;
  }
  void clear() {
    ++round_;
    seen_.clear();
  }
  /// In the order of the first requests.
  [[nodiscard]] const std::vector<std::pair<type_index, T>>& seen() const { return seen_; }

 private:
  struct slot {
    std::uint64_t round;
    std::uint32_t place;
  };
  std::uint64_t round_ = 1;
  std::vector<slot> slots_;
  std::vector<std::pair<type_index, T>> seen_;
};

/// Counts the bytes that programs requested; an empty block counts as one byte.
struct page_map {
  struct part {
    type_index type = 0;
    std::uint64_t bytes = 0;
    bool operator==(const part&) const = default;
  };

  /// Consecutive pages, the number of the first a multiple of their count.
  struct cell {
    std::uint64_t first_page = 0;
    /// Pages in which blocks have bytes, and those in which several types have.
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
  /// Cells with blocks, ascending.
  std::vector<cell> cells;
};

struct page_map_options {
  /// A cell holds the fewest pages with which this many cells suffice, but at least one.
  std::size_t most_cells = 4096;
  /// How many types a cell lists.
  std::size_t types_per_cell = 4;
};

/// The snapshot must be valid. Linear in blocks and pages; n log n in the types of a cell.
[[nodiscard]] page_map map_pages(const snapshot& s, const page_map_options& options = {});

}  // namespace espalier::inspect
