// euno_btree, and a design of it that is no entry.

#include "espalier/catalog/entries/euno_btree.hpp"
#include "scheduled/maps.hpp"
#include "scheduled/scenes.hpp"

ESPALIER_CATALOG_UNIT(euno_btree)

namespace espalier::sim {
namespace {

/// Leaves that are all contended, and are read by version.
constexpr btree::euno_design contended{0, btree::euno_design::never, true, false, true};
[[maybe_unused]] const bool contended_added = [] {
  if constexpr (battery::every_entry)
    battery::add_tests(
        "euno_btree/contended",
        battery::subject_type_of<battery::simulated_map<catalog::euno_rung<contended>>, false>(), 0.25, true);
  return true;
}();

}  // namespace
}  // namespace espalier::sim
