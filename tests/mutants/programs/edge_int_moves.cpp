// Keys of edge_int_lf that move up while an operation is delayed in its seek.

#include <cstdint>

#include "espalier/map/bst/edge_int_lf.hpp"
#include "mutants/driver.hpp"
#include "scheduled/battery.hpp"
#include "sim/recorded_map.hpp"

namespace espalier::mutants {
namespace {

using key = std::uint64_t;
using map_type = sim::recorded<sim::battery::simulated_map<edge_int_lf<key, key>>>;

/// A node is linked to the empty edge that an insert has read, at the address of one that was there before,
/// and moves up: the edge is empty again, for larger keys.
void empty_for_other_keys(sim::scene& s) {
  auto& map = s.make<map_type>();
  for (const key k : {key{50}, key{20}, key{80}}) map.start_with(k, k);
  map.map().insert(75, 1);
  map.map().erase(75);
  s.thread("sleeps", [&] { map.insert(60, 60); });
  s.thread("moves", [&] {
    map.insert(70, 70);
    map.erase(50);
  });
  s.at_end([&] { map.check(); });
}

/// The anchor of a seek, or of a scan, is unlinked, and the key moves past it.
template <bool Scans>
void anchor_goes_first(sim::scene& s) {
  auto& map = s.make<map_type>();
  for (const key k : {key{50}, key{20}, key{60}, key{80}, key{70}}) map.start_with(k, k);
  s.thread("sleeps", [&] {
    if (Scans)
      map.scan(65, 1);
    else
      map.find(70);
  });
  s.thread("moves", [&] {
    map.erase(60);
    map.erase(50);
  });
  s.at_end([&] { map.check(); });
}

}  // namespace

void explore_all(scenes& all) {
  sim::exploration_options how;
  how.memory = sim::freed_memory::reused;
  all.run("empty for other keys", empty_for_other_keys, how);
  all.run("anchor of a lookup goes first", anchor_goes_first<false>);
  all.run("anchor of a scan goes first", anchor_goes_first<true>);
}

}  // namespace espalier::mutants
