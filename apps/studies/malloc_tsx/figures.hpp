#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/studies/malloc_tsx/claims.hpp"
#include "apps/studies/study_output.hpp"

// The figures of the study, measured or simulated alike: their names, and the charts of the readings.

namespace espalier::app::malloc_tsx {

/// A ring of nodes that one thread traverses; without charts and findings.
[[nodiscard]] charted_figure ring_figure(std::uint64_t nodes);
/// A tree of keys below `keys` under several threads, in which sections allocate a node before they search.
[[nodiscard]] charted_figure tree_figure(std::uint64_t keys, unsigned threads);
/// The same, but sections allocate once they know that they need a node.
[[nodiscard]] charted_figure late_tree_figure(std::uint64_t keys, unsigned threads);

/// Curves by malloc and locks.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> curves_of(const placed_readings& readings);

/// Charts over the sizes of nodes. Loads are shown for a ring, where they may be compared with the ways.
[[nodiscard]] std::vector<chart> charts_of(const placed_readings& readings, bool ring, const setting& in);

/// Charts show throughput as a multiple of the throughput under these.
inline constexpr std::string_view reference_malloc = index_aware;
inline constexpr std::string_view reference_locks = tts;

/// One row per curve: over all sizes, the throughput by that of the reference, loads, and how sections ended. Sizes at
/// which an index is overloaded are counted for a ring.
[[nodiscard]] std::string summary_table(const placed_readings& readings, bool ring, const setting& in,
                                        bool colour);

/// The name of an entry of `benchmarks`.
[[nodiscard]] std::string entry_name(std::string_view figure, const point& at);
/// Adds a reading's members to such an entry; `loads` are blocks, or lines, at each index.
void add_reading(nlohmann::ordered_json& entry, const point& at, const placed_reading& r,
                 const std::vector<std::uint64_t>& loads);

}  // namespace espalier::app::malloc_tsx
