#pragma once

#include "espalier/catalog/entry_list.hpp"
#include "espalier/map/bst/edge_int_lf.hpp"

namespace espalier::catalog {

using edge_int_lf = entry_list<
    entry<espalier::edge_int_lf<key, value>>,
    entry<espalier::edge_int_lf<key, value, edge_int_lf_traits::with_placement<segregated>>, "segregated">,
    entry<espalier::edge_int_lf<key, value, edge_int_lf_traits::with_layout<published_layout>>, "published">>;

}  // namespace espalier::catalog
