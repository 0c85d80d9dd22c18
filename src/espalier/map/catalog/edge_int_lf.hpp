#pragma once

#include "espalier/map/bst/edge_int_lf.hpp"
#include "espalier/map/catalog.hpp"
#include "espalier/memory/shared_heap.hpp"
#include "espalier/reclaim/leaky.hpp"

namespace espalier::catalog {

using edge_int_lf = entry_list<
    entry<espalier::edge_int_lf<key, value>>,
    entry<espalier::edge_int_lf<key, value, edge_int_lf_traits::with_placement<segregated>>, "segregated">,
    entry<espalier::edge_int_lf<key, value, edge_int_lf_traits::with_placement<shared_heap>>, "shared_heap">,
    entry<espalier::edge_int_lf<key, value, edge_int_lf_traits::with_layout<line_layout>>, "line">,
    entry<espalier::edge_int_lf<key, value, edge_int_lf_traits::with_layout<published_layout>>, "published">,
    entry<espalier::edge_int_lf<key, value, edge_int_lf_traits::with_reclaimer<leaky>>, "leaky">>;

}  // namespace espalier::catalog
