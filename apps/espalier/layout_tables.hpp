#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "espalier/inspect/analysis.hpp"
#include "recorded_program.hpp"

// An analysis of a layout as tables for a terminal. An empty cell does not apply; what is not known is "unavailable".
// With a `width`, names are shortened until the table fits, or down to 24 characters.

namespace espalier::app {

/// "512 B", "12.4 kB", "31.0 MB".
[[nodiscard]] std::string bytes_text(std::uint64_t bytes);

/// What was examined, under which geometry, and what could not be determined.
[[nodiscard]] std::string layout_head(const inspect::analysis& a, bool colour);

/// A line for each of the `most` types with the most bytes: sizes, lines, sets, pages.
[[nodiscard]] std::string types_table(const inspect::analysis& a, std::size_t most, bool colour,
                                      std::optional<std::size_t> width = {});

/// Which types lie beside which: a line for each type, a column for each neighbour, in per cent of the blocks that have
/// it in their pair of lines. If the columns are too wide for the terminal, they are headed by line numbers.
[[nodiscard]] std::string neighbours_table(const inspect::analysis& a, std::size_t most, bool colour,
                                           std::optional<std::size_t> width = {});

/// Parents with children in their line; empty if no pointers are known.
[[nodiscard]] std::string children_table(const inspect::analysis& a, bool colour,
                                         std::optional<std::size_t> width = {});

/// How the types with the most bytes developed from look to look: a line for each type, a column for each look. Empty
/// if there was only one look.
[[nodiscard]] std::string looks_table(const std::vector<look>& looks, std::size_t most, bool colour,
                                      std::optional<std::size_t> width = {});

}  // namespace espalier::app
