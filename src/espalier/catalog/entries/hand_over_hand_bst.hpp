#pragma once

#include "espalier/catalog/entry_list.hpp"
#include "espalier/map/bst/hand_over_hand_bst.hpp"

namespace espalier::catalog {

using hand_over_hand_bst = entry_list<entry<espalier::hand_over_hand_bst<key, value>>>;

}  // namespace espalier::catalog
