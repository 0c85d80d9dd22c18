#pragma once

#include "espalier/catalog/entry_list.hpp"
#include "espalier/delegation/partitioned_map.hpp"
#include "espalier/map/bst/ticket.hpp"
#include "espalier/map/ordered/ordered_map.hpp"

namespace espalier::catalog {

// A placement that is chosen at run time would be one for each partition, which a record of blocks does not know.
using partitioned =
    entry_list<entry<espalier::partitioned<espalier::ordered_map<key, value>>, "", placing::fixed>,
               entry<espalier::partitioned<espalier::ticket<key, value>>, "ticket">>;

}  // namespace espalier::catalog
