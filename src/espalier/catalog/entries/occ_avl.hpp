#pragma once

#include "espalier/catalog/entry_list.hpp"
#include "espalier/map/bst/bst_traits.hpp"
#include "espalier/map/bst/occ_avl.hpp"

namespace espalier::catalog {

using occ_avl = entry_list<
    entry<espalier::occ_avl<key, value>>, entry<espalier::occ_avl<key, value, plain_traits>, "segregated">,
    entry<espalier::occ_avl<key, value, plain_traits::with_layout<published_layout>>, "published">>;

}  // namespace espalier::catalog
