#pragma once

#include "espalier/map/bst/hand_over_hand_bst.hpp"
#include "espalier/map/catalog.hpp"

namespace espalier::catalog {

using hand_over_hand_bst = entry_list<entry<espalier::hand_over_hand_bst<key, value>>>;

}  // namespace espalier::catalog
