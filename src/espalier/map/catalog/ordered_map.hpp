#pragma once

#include "espalier/map/catalog.hpp"
#include "espalier/map/ordered_map.hpp"

namespace espalier::catalog {

using ordered_map = entry_list<entry<espalier::ordered_map<key, value>>>;

}  // namespace espalier::catalog
