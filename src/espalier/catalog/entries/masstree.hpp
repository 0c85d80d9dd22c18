#pragma once

#include "espalier/catalog/entry_list.hpp"
#include "espalier/map/studied/masstree.hpp"

namespace espalier::catalog {

using masstree = entry_list<entry<espalier::masstree<key, value>>>;

}  // namespace espalier::catalog
