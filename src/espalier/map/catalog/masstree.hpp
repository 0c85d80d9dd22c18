#pragma once

#include "espalier/map/btree/masstree.hpp"
#include "espalier/map/catalog.hpp"

namespace espalier::catalog {

using masstree = entry_list<entry<espalier::masstree<key, value>>>;

}  // namespace espalier::catalog
