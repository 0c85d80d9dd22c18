#include "espalier/map/ordered/ordered_map.hpp"
#include "scheduled/maps.hpp"
#include "support/codec.hpp"

namespace espalier::sim::battery {
namespace {

using codec = test::large_key_codec;
using map = simulated_map<ordered_map<codec::key_type, codec::value_type, map_traits, codec::compare>>;
[[maybe_unused]] const bool added =
    add_tests("ordered_map/large_keys", subject_type_of<map, false, codec>(), 1);

}  // namespace
}  // namespace espalier::sim::battery
