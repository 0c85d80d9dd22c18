#pragma once

#include <string>

#include "espalier/catalog/entry_list.hpp"
#include "espalier/map/ordered/ordered_map.hpp"

namespace espalier::catalog {

using ordered_map = entry_list<
    entry_with_strings<espalier::ordered_map<key, value>, espalier::ordered_map<std::string, value>>>;

}  // namespace espalier::catalog
