#pragma once

#include "espalier/map/catalog.hpp"
#include "espalier/map/locked_map.hpp"

namespace espalier::catalog {

using locked_map = entry_list<entry<espalier::locked_map<key, value>>>;

}  // namespace espalier::catalog
