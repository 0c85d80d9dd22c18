#pragma once

#include "espalier/catalog/entry_list.hpp"
#include "espalier/map/bst/edge_ext_lf.hpp"

namespace espalier::catalog {

template <class Traits>
using edge_ext_lf_2_map = espalier::edge_ext_lf<key, value, Traits, std::less<key>, edge_ext_lf_by_ascylib>;

using edge_ext_lf_2 =
    entry_list<entry<edge_ext_lf_2_map<edge_ext_lf_traits>>,
               entry<edge_ext_lf_2_map<edge_ext_lf_traits::with_placement<segregated>>, "segregated">,
               entry<edge_ext_lf_2_map<edge_ext_lf_traits::with_layout<published_layout>>, "published">>;

}  // namespace espalier::catalog
