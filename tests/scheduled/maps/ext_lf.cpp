// Late actions of helpers in ext_lf, with addresses that are reused and with some that are not.

#include "espalier/catalog/entries/ext_lf.hpp"
#include "scheduled/maps.hpp"
#include "scheduled/scenes.hpp"

ESPALIER_CATALOG_UNIT(ext_lf)

namespace espalier::sim {
namespace {

/// The helper of an insert arrives when the new leaf has been erased again. If the old leaf were back at its edge, the
/// helper would link the unlinked router.
ESPALIER_SCENE(ext_lf_helpers, an_insert_is_helped_after_its_leaf_was_erased, 6000) {
  auto& map = map_with<ext_lf<catalog::key, catalog::value>>(s, {10, 30});
  s.thread("inserts and erases", [&map] {
    map.insert(20, 1);
    map.erase(20);
  });
  s.thread("helps", [&map] { map.insert(5, 2); });
}

/// The same, but the key stays and its value is assigned: each assignment is a separate leaf.
ESPALIER_SCENE(ext_lf_helpers, an_assignment_is_helped_after_the_next, 6000) {
  auto& map = map_with<ext_lf<catalog::key, catalog::value>>(s, {10, 30});
  s.thread("assigns", [&map] {
    map.insert_or_assign(10, 1);
    map.insert_or_assign(10, 2);
    map.find(10);
  });
  s.thread("helps", [&map] {
    map.insert(20, 3);
    map.find(10);
  });
}

/// An erase of 20 has flagged the grandparent when an insert flags the parent. The erase backs out, after its helper or
/// before it, and both reach the same outcome.
ESPALIER_SCENE(ext_lf_helpers, an_erase_backs_out_beside_its_helper, 6000) {
  auto& map = map_with<ext_lf<catalog::key, catalog::value>>(s, {10, 20, 30});
  s.thread("erases", [&map] { map.erase(20); });
  s.thread("inserts below the parent", [&map] { map.insert(25, 1); });
  s.thread("inserts below the grandparent", [&map] { map.insert(5, 2); });
}

/// An erase of 20 has read the word of its parent, flags the grandparent, where a helper finds it, and backs out. The
/// helper marks when records of the parent have been reclaimed and their addresses reused.
ESPALIER_SCENE(ext_lf_helpers, records_come_back_at_their_addresses, 6000) {
  auto& map = map_with<ext_lf<catalog::key, catalog::value>>(s, {10, 20, 30});
  s.thread("erases", [&map] { map.erase(20); });
  s.thread("others at the parent", [&map] {
    map.insert(22, 1);
    map.erase(20);
    map.insert_or_assign(22, 2);
    map.insert_or_assign(22, 3);
  });
  s.thread("helps", [&map] { map.insert(5, 4); });
}

}  // namespace
}  // namespace espalier::sim
