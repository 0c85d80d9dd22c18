#pragma once

#include "espalier/map/btree/masstree.hpp"
#include "espalier/map/catalog.hpp"
#include "espalier/memory/shared_heap.hpp"

namespace espalier::catalog {

using masstree =
    entry_list<entry<espalier::masstree<key, value>>,
               entry<espalier::masstree<key, value, map_traits::with_placement<shared_heap>>, "shared_heap">>;

}  // namespace espalier::catalog
