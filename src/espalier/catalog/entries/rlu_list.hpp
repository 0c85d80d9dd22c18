#pragma once

#include "espalier/catalog/entry_list.hpp"
#include "espalier/map/list/rlu_list.hpp"

namespace espalier::catalog {

using rlu_list = entry_list<entry<espalier::rlu_list<key, value>>>;

}  // namespace espalier::catalog
