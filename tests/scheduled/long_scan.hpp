#pragma once

#include <cstdint>
#include <optional>

#include "scheduled/battery.hpp"

// Scans longer than one pin (512 keys) or one batch (64 entries), with updates just where they resume.

namespace espalier::sim {

/// Even keys stay, except the one after which the scan resumes; odd ones are inserted. With a guard the map's
/// own scan is called, without one the facade's, which pins again.
template <class Map, std::uint64_t Count, std::uint64_t Resumes, bool Guarded>
void beside_updates_where_it_resumes(scene& s) {
  using key = std::uint64_t;
  using map_type = battery::simulated_map<Map>;
  auto& map = s.make<map_type>();
  // Not sorted, or the tree would be a list: 37 and the counts have no common divisor.
  for (key i = 0; i < Count; ++i) map.insert(i * 37 % Count * 2, i);
  static constexpr key erased = (Resumes - 1) * 2;
  s.thread("scan", [&] {
    std::optional<key> last;
    key stayed = 0;
    const auto visit = [&](key k, key) {
      require(!last || *last < k, "a scan goes back, or visits a key twice");
      last = k;
      if (k % 2 == 0 && k != erased) ++stayed;
    };
    if constexpr (Guarded) {
      auto guard = map.pin();
      map.scan(guard, 0, visit);
    } else {
      map.scan(0, visit);
    }
    require(stayed == Count - 1, "a scan misses a key that was there throughout");
  });
  s.thread("update", [&] {
    map.erase(erased);
    map.insert(erased + 1, 1);
  });
}

}  // namespace espalier::sim
