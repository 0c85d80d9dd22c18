#pragma once

#include "espalier/map/btree/olc_btree.hpp"
#include "espalier/map/catalog.hpp"
#include "espalier/memory/shared_heap.hpp"

namespace espalier::catalog {

using olc_btree = entry_list<
    entry<espalier::olc_btree<key, value>>,
    entry<espalier::olc_btree<key, value, map_traits::with_placement<shared_heap>>, "shared_heap">>;

}  // namespace espalier::catalog
