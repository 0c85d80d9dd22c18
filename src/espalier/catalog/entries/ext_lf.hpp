#pragma once

#include "espalier/catalog/entry_list.hpp"
#include "espalier/map/bst/ext_lf.hpp"

namespace espalier::catalog {

using ext_lf = entry_list<
    entry<espalier::ext_lf<key, value>>,
    entry<espalier::ext_lf<key, value, ext_lf_traits::with_placement<segregated>>, "segregated">,
    entry<espalier::ext_lf<key, value, ext_lf_traits::with_layout<published_layout>>, "published">,
    entry<espalier::ext_lf<key, value,
                           ext_lf_traits::with_placement<segregated>::with_layout<nodes_of_48_layout>>,
          "nodes_of_48">>;

}  // namespace espalier::catalog
