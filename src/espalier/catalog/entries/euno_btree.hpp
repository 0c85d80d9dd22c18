#pragma once

#include <functional>

#include "espalier/catalog/entry_list.hpp"
#include "espalier/hw/htm.hpp"
#include "espalier/map/studied/euno_btree.hpp"

namespace espalier::catalog {

/// A rung of the paper's figure 13. htm_btree is the baseline, and the default entry has all design choices.
template <btree::euno_design Design>
using euno_rung = espalier::euno_btree<key, value, map_traits, std::less<key>, btree::fanout<30, 31>, Design>;

using euno_btree = entry_list<
    entry<espalier::euno_btree<key, value>>, entry<euno_rung<btree::split_htm>, "split_htm">,
    entry<euno_rung<btree::part_leaf>, "part_leaf">, entry<euno_rung<btree::lock_bits>, "lock_bits">,
    entry<euno_rung<btree::mark_bits>, "mark_bits">,
    entry<espalier::euno_btree<key, value, map_traits::with_htm<hw::unavailable>>, "no_transactions">>;

}  // namespace espalier::catalog
