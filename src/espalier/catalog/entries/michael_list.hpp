#pragma once

#include "espalier/catalog/entry_list.hpp"
#include "espalier/map/list/michael_list.hpp"

namespace espalier::catalog {

using michael_list = entry_list<entry<espalier::michael_list<key, value>>>;

}  // namespace espalier::catalog
