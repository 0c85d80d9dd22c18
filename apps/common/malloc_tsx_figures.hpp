#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/common/charted_figure.hpp"
#include "apps/common/malloc_tsx_study.hpp"

// The figures of the study, measured or simulated alike: what they are called, and what is drawn of the readings.

namespace espalier::app::malloc_tsx {

/// A ring of some nodes that one thread goes round; without charts and findings.
[[nodiscard]] charted_figure ring_figure(std::uint64_t nodes);
/// A tree of keys below `keys` under some threads, whose sections allocate a node before they search.
[[nodiscard]] charted_figure tree_figure(std::uint64_t keys, unsigned threads);
/// The same but for when they allocate: once they know that they need one.
[[nodiscard]] charted_figure late_tree_figure(std::uint64_t keys, unsigned threads);

/// Curves by malloc and locks.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> curves_of(const placed_readings& readings);

/// Charts over the sizes of nodes. Loads are those of a ring, which may be held against the ways.
[[nodiscard]] std::vector<chart> charts_of(const placed_readings& readings, bool ring, const setting& in);

/// What it is a multiple of.
inline constexpr std::string_view reference_malloc = index_aware;
inline constexpr std::string_view reference_locks = tts;

/// The name of an entry of `benchmarks`.
[[nodiscard]] std::string entry_name(std::string_view figure, const point& at);
/// What such an entry has of a reading; `loads` are blocks, or lines, at each index.
void add_reading(nlohmann::ordered_json& entry, const point& at, const placed_reading& r,
                 const std::vector<std::uint64_t>& loads);

}  // namespace espalier::app::malloc_tsx
