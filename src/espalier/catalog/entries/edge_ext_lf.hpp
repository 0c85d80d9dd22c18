#pragma once

#include "espalier/catalog/entry_list.hpp"
#include "espalier/map/bst/edge_ext_lf.hpp"
#include "espalier/memory/baselines/disturbed.hpp"
#include "espalier/memory/shared_heap.hpp"

namespace espalier::catalog {

using edge_ext_lf = entry_list<
    entry<espalier::edge_ext_lf<key, value>>,
    entry<espalier::edge_ext_lf<key, value, edge_ext_lf_traits::with_placement<segregated>>, "segregated">,
    entry<espalier::edge_ext_lf<key, value, edge_ext_lf_traits::with_placement<shared_heap>>, "shared_heap">,
    entry<espalier::edge_ext_lf<key, value, edge_ext_lf_traits::with_placement<shifted<shared_heap>>>,
          "shifted">>;

}  // namespace espalier::catalog
