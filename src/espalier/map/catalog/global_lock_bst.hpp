#pragma once

#include "espalier/map/bst/global_lock_bst.hpp"
#include "espalier/map/catalog.hpp"
#include "espalier/sync/ticket_lock.hpp"
#include "espalier/sync/ttas_lock.hpp"

namespace espalier::catalog {

using global_lock_bst = entry_list<
    entry<espalier::global_lock_bst<key, value>>,
    entry<espalier::global_lock_bst<key, value, map_traits::with_lock<ttas_lock>>, "ttas">,
    entry<espalier::global_lock_bst<key, value, map_traits::with_lock<ticket_lock>>, "ticket_lock">>;

}  // namespace espalier::catalog
