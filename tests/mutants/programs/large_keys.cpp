// The battery on ordered_map with keys larger than a word, whose comparator recognizes parts of two; and scans in reverse
// that begin again and again beside merges.

#include <cstdint>

#include "espalier/catalog/entry_list.hpp"
#include "espalier/map/ordered/ordered_map.hpp"
#include "mutants/battery_program.hpp"
#include "sim/recorded_map.hpp"
#include "support/codec.hpp"

namespace espalier::mutants {
namespace {

using codec = test::large_key_codec;
using shipped = ordered_map<codec::key_type, codec::value_type, map_traits, codec::compare>;

void merges_below_a_scan(sim::scene& s) {
  constexpr std::uint64_t keys = 12;
  auto& map = s.make<sim::recorded<sim::battery::simulated_map<shipped>, codec>>();
  for (std::uint64_t k = 0; k < keys; ++k) map.start_with(k, k);
  s.thread("scan", [&] {
    for (int i = 0; i < 3; ++i) map.reverse_scan(keys, keys);
  });
  s.thread("update", [&] {
    for (std::uint64_t k = keys - 2; k > 0; --k) map.erase(k);
  });
  s.at_end([&] { map.check(); });
}

}  // namespace

void explore_all(scenes& all) {
  explore_battery<catalog::entry_list<catalog::entry<shipped>>, false, codec>("ordered_map/large_keys", all);
  all.run("merges below a scan", merges_below_a_scan, {}, 4);
}

}  // namespace espalier::mutants
