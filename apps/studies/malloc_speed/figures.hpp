#pragma once

#include <cstddef>
#include <vector>

#include "apps/studies/malloc_speed/claims.hpp"
#include "apps/studies/study_output.hpp"

// The figures of what mallocs cost.

namespace espalier::app::malloc_speed {

/// Time relative to mimalloc and to glibc, and memory relative to jemalloc, each with its claim; and the cost of the
/// classes. There are bars by benchmark and for the geometric mean. Mallocs of other libraries are shown as peers.
[[nodiscard]] std::vector<charted_figure> figures_of(const cost_readings& measured,
                                                     const std::vector<missing_map>& missing);

/// Bytes from one block to the next in index-aware classes for this size, including a block's share of the lines that
/// the classes leave out.
[[nodiscard]] double index_aware_bytes(std::size_t asked) noexcept;

}  // namespace espalier::app::malloc_speed
