#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/common/charted_figure.hpp"
#include "apps/common/malloc_speed_study.hpp"

// The figures of the study: what its pages show.

namespace espalier::app::malloc_speed {

/// Time over mimalloc's and over glibc's, memory over jemalloc's, each with the claim about it, and what the classes
/// cost. Bars by benchmark and of the geometric mean; of mallocs that are not of `ours` as peers.
[[nodiscard]] std::vector<charted_figure> figures_of(const cost_readings& measured,
                                                     std::span<const std::string_view> ours,
                                                     const std::vector<missing_map>& missing);

/// Bytes from one block to the next where index-aware classes hold so many, with a block's share of the lines that are
/// left out.
[[nodiscard]] double index_aware_bytes(std::size_t asked) noexcept;

}  // namespace espalier::app::malloc_speed
