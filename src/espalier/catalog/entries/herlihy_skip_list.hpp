#pragma once

#include "espalier/catalog/entry_list.hpp"
#include "espalier/map/skip_list/herlihy_skip_list.hpp"

namespace espalier::catalog {

using herlihy_skip_list = entry_list<entry<espalier::herlihy_skip_list<key, value>>>;

}  // namespace espalier::catalog
