#pragma once

#include "espalier/catalog/entry_list.hpp"
#include "espalier/map/bst/global_lock_bst.hpp"

namespace espalier::catalog {

using global_lock_bst = entry_list<entry<espalier::global_lock_bst<key, value>>>;

}  // namespace espalier::catalog
