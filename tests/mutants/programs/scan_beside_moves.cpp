// A scan keeps a node that is unlinked, while the subtree to its right moves up and gets smaller keys.

#include <cstdint>

#include "espalier/map/bst/edge_ext_lf.hpp"
#include "mutants/driver.hpp"
#include "scheduled/battery.hpp"
#include "sim/recorded_map.hpp"

namespace espalier::mutants {
namespace {

using key = std::uint64_t;
using map_type = sim::recorded<sim::battery::simulated_map<edge_ext_lf<key, key>>>;

void subtree_moves_up(sim::scene& s) {
  auto& map = s.make<map_type>();
  for (const key k : {key{10}, key{20}, key{30}}) map.start_with(k, k);
  s.thread("scan", [&] {
    auto guard = map.pin();  // without a guard the facade would drop entries that are out of order
    map.scan(guard, 0);
  });
  s.thread("update", [&] {
    map.erase(10);
    map.insert(5, 1);
  });
  s.at_end([&] { map.check(); });
}

}  // namespace

void explore_all(scenes& all) { all.run("subtree moves up", subtree_moves_up); }

}  // namespace espalier::mutants
