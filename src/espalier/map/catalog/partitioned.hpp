#pragma once

#include <string>

#include "espalier/map/bst/edge_ext_lf.hpp"
#include "espalier/map/bst/occ_avl.hpp"
#include "espalier/map/bst/ticket.hpp"
#include "espalier/map/catalog.hpp"
#include "espalier/map/ordered_map.hpp"
#include "espalier/map/partitioned.hpp"

namespace espalier::catalog {

using partitioned = entry_list<
    entry_with_strings<espalier::partitioned<espalier::ordered_map<key, value>>,
                       espalier::partitioned<espalier::ordered_map<std::string, value>>, placing::fixed>,
    entry<espalier::partitioned<espalier::ticket<key, value>>, "ticket">,
    entry<espalier::partitioned<espalier::edge_ext_lf<key, value>>, "edge_ext_lf">,
    entry<espalier::partitioned<espalier::occ_avl<key, value>>, "occ_avl">>;

}  // namespace espalier::catalog
