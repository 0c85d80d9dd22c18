#pragma once

#include "espalier/catalog/entry_list.hpp"
#include "espalier/map/bst/ticket.hpp"

namespace espalier::catalog {

using ticket = entry_list<
    entry<espalier::ticket<key, value>>,
    entry<espalier::ticket<key, value, ticket_traits::with_placement<segregated>>, "segregated">,
    entry<espalier::ticket<key, value, ticket_traits::with_layout<published_layout>>, "published">,
    entry<espalier::ticket<key, value,
                           ticket_traits::with_placement<segregated>::with_layout<nodes_of_48_layout>>,
          "nodes_of_48">>;

}  // namespace espalier::catalog
