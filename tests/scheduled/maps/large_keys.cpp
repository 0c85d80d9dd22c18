// The battery on ordered_map with keys larger than a word, whose comparator recognizes parts of two; and scans in reverse
// that begin again and again beside merges.

#include <cstdint>

#include "espalier/map/ordered/ordered_map.hpp"
#include "scheduled/maps.hpp"
#include "scheduled/scenes.hpp"
#include "sim/recorded_map.hpp"
#include "support/codec.hpp"

namespace espalier::sim {
namespace {

using codec = test::large_key_codec;
using shipped = ordered_map<codec::key_type, codec::value_type, map_traits, codec::compare>;

ESPALIER_SCENE(large_keys, merges_below_a_scan, 200, 4) {
  constexpr std::uint64_t keys = 12;
  auto& map = s.make<recorded<battery::simulated_map<shipped>, codec>>();
  for (std::uint64_t k = 0; k < keys; ++k) map.start_with(k, k);
  s.thread("scan", [&] {
    for (int i = 0; i < 3; ++i) map.reverse_scan(keys, keys);
  });
  s.thread("update", [&] {
    for (std::uint64_t k = keys - 2; k > 0; --k) map.erase(k);
  });
  s.at_end([&] { map.check(); });
}

[[maybe_unused]] const bool battery_is_added = battery::add_tests(
    "ordered_map/large_keys", battery::subject_type_of<battery::simulated_map<shipped>, false, codec>(), 1);

}  // namespace
}  // namespace espalier::sim
