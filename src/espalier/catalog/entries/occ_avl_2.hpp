#pragma once

#include "espalier/catalog/entry_list.hpp"
#include "espalier/map/bst/bst_traits.hpp"
#include "espalier/map/bst/occ_avl.hpp"

namespace espalier::catalog {

template <class Traits, class Design>
using occ_avl_2_map = espalier::occ_avl<key, value, Traits, std::less<key>, Design>;

using occ_avl_2 = entry_list<
    entry<occ_avl_2_map<occ_avl_traits<key>, occ_avl_by_ascylib>>,
    entry<occ_avl_2_map<plain_traits, occ_avl_by_ascylib>, "segregated">,
    entry<occ_avl_2_map<plain_traits::with_layout<published_layout>, occ_avl_by_ascylib>, "published">,
    entry<occ_avl_2_map<plain_traits, occ_avl_from_root>, "ret">,
    entry<occ_avl_2_map<plain_traits, occ_avl_unsafe>, "unsafe">>;

}  // namespace espalier::catalog
