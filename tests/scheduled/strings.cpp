#include "scheduled/strings.hpp"

#include "scheduled/maps.hpp"

namespace espalier::sim::battery {
namespace {

[[maybe_unused]] const bool strings_added = add_tests("masstree_of_strings", masstree_of_strings<3>(), 1);
// A key may come to a container that has room.
[[maybe_unused]] const bool roomy_added =
    add_tests("masstree_of_strings_of_five", masstree_of_strings<5>(), 1);
[[maybe_unused]] const bool ordered_added =
    add_tests("ordered_map_of_strings", ordered_map_of_strings<3>(), 1);

}  // namespace
}  // namespace espalier::sim::battery
