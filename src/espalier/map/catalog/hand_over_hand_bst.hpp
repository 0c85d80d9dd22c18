#pragma once

#include "espalier/map/bst/hand_over_hand_bst.hpp"
#include "espalier/map/catalog.hpp"
#include "espalier/memory/shared_heap.hpp"

namespace espalier::catalog {

using hand_over_hand_bst = entry_list<
    entry<espalier::hand_over_hand_bst<key, value>>,
    entry<espalier::hand_over_hand_bst<key, value, map_traits::with_placement<shared_heap>>, "shared_heap">,
    entry<espalier::hand_over_hand_bst<key, value, map_traits::with_layout<line_layout>>, "line">>;

}  // namespace espalier::catalog
