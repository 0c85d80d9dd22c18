#pragma once

#include "espalier/catalog/entry_list.hpp"
#include "espalier/map/studied/olc_btree.hpp"

namespace espalier::catalog {

using olc_btree = entry_list<entry<espalier::olc_btree<key, value>>>;

}  // namespace espalier::catalog
