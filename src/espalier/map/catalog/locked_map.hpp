#pragma once

#include <string>

#include "espalier/map/catalog.hpp"
#include "espalier/map/locked_map.hpp"

namespace espalier::catalog {

using locked_map = entry_list<
    entry_with_strings<espalier::locked_map<key, value>, espalier::locked_map<std::string, value>>>;

}  // namespace espalier::catalog
