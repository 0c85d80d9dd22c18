#pragma once

#include "espalier/map/bst/int_lf.hpp"
#include "espalier/map/catalog.hpp"
#include "espalier/memory/shared_heap.hpp"
#include "espalier/reclaim/leaky.hpp"

namespace espalier::catalog {

using int_lf =
    entry_list<entry<espalier::int_lf<key, value>>,
               entry<espalier::int_lf<key, value, map_traits::with_placement<shared_heap>>, "shared_heap">,
               entry<espalier::int_lf<key, value, map_traits::with_layout<line_layout>>, "line">,
               entry<espalier::int_lf<key, value, map_traits::with_layout<published_layout>>, "published">,
               entry<espalier::int_lf<key, value, map_traits::with_reclaimer<leaky>>, "leaky">,
               entry<espalier::int_lf<key, value,
                                      map_traits::with_layout<published_layout>::with_placement<shared_heap>>,
                     "published_shared_heap">>;

}  // namespace espalier::catalog
