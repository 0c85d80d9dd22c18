#pragma once

#include "espalier/map/catalog.hpp"
#include "espalier/map/ordered_map.hpp"
#include "espalier/memory/shared_heap.hpp"

namespace espalier::catalog {

using ordered_map = entry_list<
    entry<espalier::ordered_map<key, value>>,
    entry<espalier::ordered_map<key, value, map_traits::with_placement<shared_heap>>, "shared_heap">>;

}  // namespace espalier::catalog
