#pragma once

#include "espalier/catalog/entry_list.hpp"
#include "espalier/map/bst/citrus.hpp"

namespace espalier::catalog {

using citrus =
    entry_list<entry<espalier::citrus<key, value>>,
               entry<espalier::citrus<key, value, map_traits::with_layout<published_layout>>, "published">>;

}  // namespace espalier::catalog
