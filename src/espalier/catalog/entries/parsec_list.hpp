#pragma once

#include "espalier/catalog/entry_list.hpp"
#include "espalier/map/list/parsec_list.hpp"

namespace espalier::catalog {

// "epoch": what quiescence costs or saves.
using parsec_list =
    entry_list<entry<espalier::parsec_list<key, value>>,
               entry<espalier::parsec_list<key, value, map_traits::with_reclaimer<epoch_domain>>, "epoch">>;

}  // namespace espalier::catalog
