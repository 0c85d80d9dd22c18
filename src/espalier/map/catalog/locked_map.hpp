#pragma once

#include "espalier/map/catalog.hpp"
#include "espalier/map/locked_map.hpp"
#include "espalier/memory/shared_heap.hpp"

namespace espalier::catalog {

using locked_map = entry_list<
    entry<espalier::locked_map<key, value>>,
    entry<espalier::locked_map<key, value, map_traits::with_lock<std_mutex>::with_placement<shared_heap>>,
          "shared_heap">>;

}  // namespace espalier::catalog
