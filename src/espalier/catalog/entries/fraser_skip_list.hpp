#pragma once

#include "espalier/catalog/entry_list.hpp"
#include "espalier/map/skip_list/fraser_skip_list.hpp"

namespace espalier::catalog {

using fraser_skip_list = entry_list<entry<espalier::fraser_skip_list<key, value>>>;

}  // namespace espalier::catalog
