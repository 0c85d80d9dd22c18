// One update of ticket is delayed while others change the edge that it has read until its version wraps.

#include <cstdint>

#include "espalier/map/bst/ticket.hpp"
#include "mutants/driver.hpp"
#include "scheduled/battery.hpp"
#include "sim/recorded_map.hpp"

namespace espalier::mutants {
namespace {

using key = std::uint64_t;
using map_type = sim::recorded<sim::battery::simulated_map<ticket<key, key>>>;

void sleeps_over_an_insert_and_an_erase(sim::scene& s) {
  auto& map = s.make<map_type>();
  map.start_with(10, 1);
  s.thread("sleeper", [&] { map.insert(30, 3); });
  s.thread("busy", [&] {
    map.insert(20, 2);
    map.erase(10);
  });
  s.at_end([&] { map.check(); });
}

}  // namespace

void explore_all(scenes& all) {
  all.run("sleeps over an insert and an erase", sleeps_over_an_insert_and_an_erase);
}

}  // namespace espalier::mutants
