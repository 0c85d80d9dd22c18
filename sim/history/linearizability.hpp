#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/map/map_concept.hpp"
#include "sim/history/history.hpp"
#include "sim/history/order_search.hpp"
#include "sim/history/search_budget.hpp"

// Is a history of a map linearizable: could its operations, each taking effect at one moment between its
// invocation and its return, one after the other, have given these results?
//
// A map is a product of registers, one a key, and linearizability is local (M. Herlihy and J. Wing,
// "Linearizability: a correctness condition for concurrent objects", TOPLAS 12(3), 1990): a history without
// scans is linearizable exactly if the operations of each key are. So each key is searched by itself;
// order_search.hpp says how.
//
// A scan promises one of two things.
//   per_key: what it visits is strictly increasing; each entry visited was present at some moment of the
//     scan; each key of the covered range that was present throughout is visited. The range is covered from
//     where the scan began to the last key visited, or to the end of the map if the scan reached it. For one
//     key this says that the scan looked at it once, at some moment of its own, and told what it saw. That
//     is what a find of this key does, invoked and returned with the scan. Nothing ties the moments of
//     different keys together. Hence a scan is checked as one find for each covered key that the history
//     mentions; a key that it does not mention is absent throughout.
//   snapshot: the whole scan takes effect at one moment. Then the keys do not come apart, and the search has
//     the whole map as its state: for small histories.

namespace espalier::sim {

[[nodiscard]] constexpr std::string_view to_string(outcome o) noexcept {
  return o == outcome::linearizable ? "linearizable" : o == outcome::violation ? "violation" : "unknown";
}

struct verdict {
  outcome result = outcome::unknown;
  /// violation: what cannot be ordered, with a timeline; unknown: which limit ended the search.
  std::string explanation;
  /// violation: the key, if one is at fault by itself.
  std::optional<std::uint64_t> key;
  /// violation: the smallest part of the history found that has no order, as it was recorded.
  std::vector<operation> evidence;
  std::uint64_t steps = 0;
};

/// Never says linearizable where a limit ended the search, or where more than 64 operations are open at one
/// moment on one key (on the map, for snapshots); a violation found elsewhere is still one. The explanation
/// of a violation may spend the limits once more.
///
/// Takes O(n log n) for n operations of which few overlap on a key; exponential in that few. Under per_key
/// a scan counts as many operations as it covers keys.
[[nodiscard]] verdict check(const history& observed, const check_limits& limits = {},
                            scan_guarantee scans = scan_guarantee::per_key);

}  // namespace espalier::sim
