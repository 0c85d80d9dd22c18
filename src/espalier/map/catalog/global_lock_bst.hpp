#pragma once

#include "espalier/map/bst/global_lock_bst.hpp"
#include "espalier/map/catalog.hpp"

namespace espalier::catalog {

using global_lock_bst = entry_list<entry<espalier::global_lock_bst<key, value>>>;

}  // namespace espalier::catalog
