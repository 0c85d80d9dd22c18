#pragma once

#include "espalier/map/btree/olc_btree.hpp"
#include "espalier/map/catalog.hpp"

namespace espalier::catalog {

using olc_btree = entry_list<entry<espalier::olc_btree<key, value>>>;

}  // namespace espalier::catalog
