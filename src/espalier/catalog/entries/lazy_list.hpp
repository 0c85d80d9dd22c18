#pragma once

#include "espalier/catalog/entry_list.hpp"
#include "espalier/map/list/lazy_list.hpp"

namespace espalier::catalog {

using lazy_list = entry_list<entry<espalier::lazy_list<key, value>>>;

}  // namespace espalier::catalog
