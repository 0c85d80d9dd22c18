#include "scheduled/strings.hpp"

#include "scheduled/maps.hpp"

namespace espalier::sim::battery {
namespace {

[[maybe_unused]] const bool ordered_added =
    add_tests("ordered_map_of_strings", ordered_map_of_strings<3>(), 1);

}  // namespace
}  // namespace espalier::sim::battery
