#pragma once

#include "espalier/catalog/entry_list.hpp"
#include "espalier/map/skip_list/optik_skip_list.hpp"

namespace espalier::catalog {

using optik_skip_list = entry_list<entry<espalier::optik_skip_list<key, value>>>;

}  // namespace espalier::catalog
