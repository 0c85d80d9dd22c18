#pragma once

#include <iosfwd>
#include <span>
#include <string>

#include "sim/history/history.hpp"

// Histories for people: one line per operation, by invocation, with its interval drawn.
//
//   T0   3..9   [-----]     insert(7, 3) -> true
//   T11  5..14    [-----]   find(7) -> absent
//   T2   8..        [---->  erase(7) pending

namespace espalier::sim {

struct timeline_line {
  operation drawn;
  std::string text;
};

/// The drawing omits moments without events. In long histories several moments share a column.
void print_timeline(std::ostream& out, std::span<const timeline_line> lines);

/// The whole history.
void print_timeline(std::ostream& out, const history& observed);

}  // namespace espalier::sim
