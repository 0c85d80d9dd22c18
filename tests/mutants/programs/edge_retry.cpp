// Between two attempts of an erase of edge_ext_lf, a helper completes it, and the key is inserted again.

#include <cstdint>

#include "espalier/map/bst/edge_ext_lf.hpp"
#include "mutants/driver.hpp"
#include "scheduled/battery.hpp"
#include "sim/recorded_map.hpp"

namespace espalier::mutants {
namespace {

using key = std::uint64_t;
using map_type = sim::recorded<sim::battery::simulated_map<edge_ext_lf<key, key>>>;

void helped_and_inserted_again(sim::scene& s) {
  auto& map = s.make<map_type>();
  for (const key k : {key{10}, key{20}, key{30}}) map.start_with(k, k);
  s.thread("erases", [&] { map.erase(20); });
  s.thread("helps", [&] {
    map.insert(21, 1);
    map.insert(20, 2);
  });
  s.at_end([&] { map.check(); });
}

}  // namespace

void explore_all(scenes& all) {
  sim::exploration_options how;
  how.memory = sim::freed_memory::reused;
  all.run("helped and inserted again", helped_and_inserted_again, how);
}

}  // namespace espalier::mutants
