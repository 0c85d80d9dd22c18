#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "espalier/memory/index_class.hpp"

// Where index-aware memory begins its runs of blocks (Afek, Dice and Morrison, ISMM 2011, call it colouring):
// arithmetic alone, for allocators with any bookkeeping.

namespace espalier {

/// Where in a region a run begins: its index, and the number of pages before it. Runs that begin on different pages
/// stay apart in caches with indices that go beyond a page.
struct run_colour {
  std::size_t index;
  std::size_t page;

  static constexpr std::size_t page_bytes = index_class::indices * index_class::line;
  static constexpr std::size_t pages = 8;

  /// From the beginning of the region. Its first line is in use.
  [[nodiscard]] constexpr std::size_t offset() const noexcept {
    const std::size_t in_page = index % index_class::indices * index_class::line;
    return page % pages * page_bytes + (in_page == 0 ? page_bytes : in_page);
  }
};

namespace index_colour {

/// The numbers below a power of two, each as far as possible from those before it: the bits in reverse.
constexpr std::size_t spread(std::size_t number, std::size_t power_of_two) noexcept {
  std::size_t reversed = 0;
  for (std::size_t bit = 1; bit < power_of_two; bit *= 2) {
    reversed = reversed * 2 + number % 2;
    number /= 2;
  }
  return reversed;
}

/// Multiplicative hashing to an index.
constexpr std::size_t hashed(std::uint64_t number) noexcept {
  return number * 0x9E3779B97F4A7C15U >> (64 - std::bit_width(index_class::indices - 1));
}

/// Where the number-th series of runs of a class begins. Series of one class begin as far from each other in the
/// cycle of the indices as their number allows: the second half a cycle after the first, the third and fourth
/// between these, and so on. Hashing keeps other classes apart.
constexpr std::size_t first_index(std::size_t number, std::size_t size_class) noexcept {
  // The distance is counted in blocks, so that the indices are well apart at every stride.
  const std::size_t blocks = spread(number, index_class::indices);
  const index_class::shape shape = index_class::shape_of(size_class);
  const std::size_t lines =
      shape.stride < index_class::line ? blocks : shape.offset(blocks) / index_class::line;
  return lines + hashed(size_class);
}

/// On which page of its region the number-th run begins.
constexpr std::size_t page_of(std::size_t number) noexcept { return spread(number, run_colour::pages); }

/// For the number-th block too large for a class. 39 is odd and about the golden section of 64: blocks allocated
/// one after the other begin far apart.
constexpr run_colour of_large(std::size_t number) noexcept { return {number * 39, number}; }

}  // namespace index_colour
}  // namespace espalier
