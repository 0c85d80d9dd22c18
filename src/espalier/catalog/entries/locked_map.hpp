#pragma once

#include <string>

#include "espalier/catalog/entry_list.hpp"
#include "espalier/map/locked_map.hpp"

namespace espalier::catalog {

using locked_map = entry_list<
    entry_with_strings<espalier::locked_map<key, value>, espalier::locked_map<std::string, value>>>;

}  // namespace espalier::catalog
