#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/map/map_concept.hpp"
#include "sim/history/history.hpp"
#include "sim/history/order_search.hpp"

// Checks whether a history of a map is linearizable: whether its operations could have given these results if each took
// effect at one moment between its invocation and its return, one after the other.
//
// A map is a product of registers, one per key, and linearizability is local (M. Herlihy and J. Wing, "Linearizability:
// a correctness condition for concurrent objects", TOPLAS 12(3), 1990): a history without scans is linearizable exactly
// if the operations of each key are. So each key is searched by itself, as order_search.hpp describes.
//
// A scan promises this: the keys that it visits are strictly increasing, those of a reverse scan decreasing; each entry
// visited was present at some moment of the scan; each key of the covered range that was present throughout is visited.
// The covered range extends from the start of the scan to the last key visited, or to where the map ends if the scan
// reached that. For one key this means that the scan read it once, at some moment of its own, and reported the result.
// That is what a find of this key does, invoked and returned with the scan. The moments of different keys are
// independent. Hence a scan is checked as one find for each covered key that the history mentions. A key that it does
// not mention is absent throughout.

namespace espalier::sim {

[[nodiscard]] constexpr std::string_view to_string(outcome o) noexcept {
  return o == outcome::linearizable ? "linearizable" : o == outcome::violation ? "violation" : "unknown";
}

struct verdict {
  outcome result = outcome::unknown;
  /// violation: the operations that have no order, with a timeline. unknown: the limit that ended the search.
  std::string explanation;
  /// violation: the key, if a single key is at fault.
  std::optional<std::uint64_t> key;
  /// violation: the smallest part found of the history that has no order, as it was recorded.
  std::vector<operation> evidence;
  std::uint64_t steps = 0;
};

/// Never returns linearizable if a limit ended the search, or if more than 64 operations are open at one moment on one
/// key. A violation found elsewhere is still reported. The explanation of a violation may
/// use the limits once more.
///
/// Takes O(n log n) for n operations of which few overlap on a key; exponential in the number that overlap. A scan
/// counts as one operation per key that it covers.
[[nodiscard]] verdict check(const history& observed, const check_limits& limits = {});

}  // namespace espalier::sim
