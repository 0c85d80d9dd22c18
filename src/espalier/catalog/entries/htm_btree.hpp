#pragma once

#include "espalier/catalog/entry_list.hpp"
#include "espalier/hw/htm.hpp"
#include "espalier/map/studied/htm_btree.hpp"

namespace espalier::catalog {

using htm_btree = entry_list<
    entry<espalier::htm_btree<key, value>>,
    entry<espalier::htm_btree<key, value, map_traits::with_htm<hw::unavailable>>, "no_transactions">>;

}  // namespace espalier::catalog
