// Scans longer than one pin (512 keys) and one batch (64 entries), with updates just where they resume.

#include <cstdint>
#include <optional>

#include "espalier/map/bst/ticket.hpp"
#include "espalier/map/locked_map.hpp"
#include "mutants/driver.hpp"
#include "scheduled/battery.hpp"

namespace espalier::mutants {
namespace {

using key = std::uint64_t;

/// Even keys stay, except the one after which the scan resumes; odd ones are inserted. With a guard the map's
/// own scan is called, without one the facade's, which pins again.
template <class Map, key Count, key Resumes, bool Guarded>
void scanned(sim::scene& s) {
  using map_type = sim::battery::simulated_map<Map>;
  auto& map = s.make<map_type>();
  // Not sorted, or the tree would be a list: 37 and the counts have no common divisor.
  for (key i = 0; i < Count; ++i) map.insert(i * 37 % Count * 2, i);
  static constexpr key erased = (Resumes - 1) * 2;
  s.thread("scan", [&] {
    std::optional<key> last;
    key stayed = 0;
    const auto visit = [&](key k, key) {
      sim::require(!last || *last < k, "a scan goes back, or visits a key twice");
      last = k;
      if (k % 2 == 0 && k != erased) ++stayed;
    };
    if constexpr (Guarded) {
      auto guard = map.pin();
      map.scan(guard, 0, visit);
    } else {
      map.scan(0, visit);
    }
    sim::require(stayed == Count - 1, "a scan misses a key that was there throughout");
  });
  s.thread("update", [&] {
    map.erase(erased);
    map.insert(erased + 1, 1);
  });
}

}  // namespace

void explore_all(scenes& all) {
  all.run("new pin", scanned<ticket<key, key>, 600, 512, false>, {}, 0.1);
  all.run("new batch", scanned<locked_map<key, key>, 200, 64, true>, {}, 0.1);
}

}  // namespace espalier::mutants
