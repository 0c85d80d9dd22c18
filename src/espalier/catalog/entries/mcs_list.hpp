#pragma once

#include "espalier/catalog/entry_list.hpp"
#include "espalier/map/list/mcs_list.hpp"

namespace espalier::catalog {

using mcs_list = entry_list<entry<espalier::mcs_list<key, value>>>;

}  // namespace espalier::catalog
