#pragma once

#include <cstddef>
#include <optional>
#include <utility>

#include "espalier/map/batched_scan.hpp"
#include "espalier/map/map_facade.hpp"

namespace espalier {

template <class Key, class Value>
struct scan_entry {
  Key key;
  Value value;
};

/// A scan by a search for each entry. It is for a map with entries that move, where a walk from node to node could miss
/// some or meet one twice. first_of(bound) returns the entry with the smallest key that the scan_bound admits, or
/// nothing. It must not miss a key that is present throughout the search. The visitor is called between searches, and
/// may call the map. Returns the number of visits.
template <class Compare, class Key, class FirstOf, class Visitor>
std::size_t stepwise_scan(const Compare& less, const Key& from, FirstOf&& first_of, Visitor&& visitor) {
  using bound = scan_bound<Key, Compare>;
  std::size_t visits = 0;
  auto at = first_of(bound{less, from, false});
  while (at) {
    ++visits;
    if (!visit_entry(visitor, at->key, at->value)) break;
    const Key last = at->key;
    at = first_of(bound{less, last, true});
  }
  return visits;
}

}  // namespace espalier
