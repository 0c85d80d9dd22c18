#pragma once

#include <functional>

#include "espalier/catalog/entry_list.hpp"
#include "espalier/hw/htm.hpp"
#include "espalier/memory/index_aware.hpp"
#include "espalier/memory/shared_heap.hpp"
#include "example_map/block_list.hpp"

namespace espalier::catalog {

using block_list = entry_list<
    entry<example::block_list<key, value>>,
    entry<example::block_list<key, value, map_traits::with_placement<index_aware>>, "index_aware">,
    entry<example::block_list<key, value, map_traits::with_placement<shared_heap>>, "shared_heap">,
    entry<example::block_list<key, value, map_traits::with_htm<hw::unavailable>>, "no_transactions">,
    entry<example::block_list<key, value, map_traits, std::less<key>, 128>, "128_bytes">>;

}  // namespace espalier::catalog
