#pragma once

#include "espalier/catalog/entry_list.hpp"
#include "espalier/map/bst/rlu_tree.hpp"

namespace espalier::catalog {

using rlu_tree = entry_list<entry<espalier::rlu_tree<key, value>>>;

}  // namespace espalier::catalog
