#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "apps/simulate/malloc_tsx_results.hpp"
#include "sim/machine/machine_spec.hpp"

// The study's printed results.

namespace espalier::simulate {

/// The data for tables. All configurations of the sizes have been measured.
struct malloc_tsx_shown {
  const malloc_tsx_results& results;
  const sim::machine_spec& machine;
  unsigned write_ways;
  bool colour;
};

/// The results for all sizes of a ring, allocation by allocation.
[[nodiscard]] std::string ring_summary(const malloc_tsx_shown& s, std::uint64_t nodes,
                                       const std::vector<std::size_t>& sizes);
/// Size by size; `which` describes the sizes.
[[nodiscard]] std::string ring_table(const malloc_tsx_shown& s, std::uint64_t nodes,
                                     const std::vector<std::size_t>& sizes, const std::string& which);
/// For either tree.
[[nodiscard]] std::string tree_table(const malloc_tsx_shown& s, benchmark tree, std::uint64_t keys,
                                     unsigned threads, const std::vector<std::size_t>& sizes);

}  // namespace espalier::simulate
