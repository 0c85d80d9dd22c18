#pragma once

#include "espalier/catalog/entry_list.hpp"
#include "espalier/map/list/optik_list.hpp"

namespace espalier::catalog {

using optik_list = entry_list<entry<espalier::optik_list<key, value>>>;

}  // namespace espalier::catalog
