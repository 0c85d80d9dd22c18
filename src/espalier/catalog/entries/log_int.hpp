#pragma once

#include "espalier/catalog/entry_list.hpp"
#include "espalier/map/bst/log_int.hpp"

namespace espalier::catalog {

using log_int =
    entry_list<entry<espalier::log_int<key, value>>,
               entry<espalier::log_int<key, value, map_traits::with_layout<published_layout>>, "published">>;

}  // namespace espalier::catalog
