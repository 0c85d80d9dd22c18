#pragma once

#include <string>
#include <vector>

#include "espalier/inspect/analysis.hpp"

// An analysis of a layout as tables for a terminal. A cell with nothing in it does not apply; what is not known
// is "unavailable".

namespace espalier::app {

/// What was looked at, under which geometry, and what could not be told.
[[nodiscard]] std::string layout_head(const inspect::analysis& a, bool colour);

/// A line for each of the `most` types with the most bytes: sizes, lines, sets, pages.
[[nodiscard]] std::string types_table(const inspect::analysis& a, std::size_t most, bool colour);

/// Which types lie beside which: a line for each type, a column for each company, in per cent of the blocks
/// that have it in their pair of lines.
[[nodiscard]] std::string neighbours_table(const inspect::analysis& a, std::size_t most, bool colour);

/// Parents with children in their line; empty where no pointers are known.
[[nodiscard]] std::string children_table(const inspect::analysis& a, bool colour);

}  // namespace espalier::app
