#pragma once

#include "espalier/hw/htm.hpp"
#include "espalier/map/catalog.hpp"
#include "espalier/map/studied/htm_masstree.hpp"

namespace espalier::catalog {

using htm_masstree = entry_list<
    entry<espalier::htm_masstree<key, value>>,
    entry<espalier::htm_masstree<key, value, map_traits::with_htm<hw::unavailable>>, "no_transactions">>;

}  // namespace espalier::catalog
