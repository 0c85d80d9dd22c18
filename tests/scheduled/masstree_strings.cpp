#include "scheduled/masstree_strings.hpp"

#include "scheduled/maps.hpp"

namespace espalier::sim::battery {
namespace {

[[maybe_unused]] const bool strings_added = add_tests("masstree_of_strings", masstree_of_strings(), 1);

}  // namespace
}  // namespace espalier::sim::battery
