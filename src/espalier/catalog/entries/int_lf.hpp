#pragma once

#include "espalier/catalog/entry_list.hpp"
#include "espalier/map/bst/int_lf.hpp"
#include "espalier/memory/baselines/disturbed.hpp"
#include "espalier/memory/segregated.hpp"
#include "espalier/memory/shared_heap.hpp"
#include "espalier/reclaim/leaky.hpp"

namespace espalier::catalog {

/// As the study of ATC 2018 had it: nodes of 64 bytes and descriptors of the same size class, which are never
/// freed, in the heap.
template <class Placement>
using int_lf_as_studied = espalier::int_lf<
    key, value, map_traits::with_layout<published_layout>::with_reclaimer<leaky>::with_placement<Placement>>;

using int_lf = entry_list<
    entry<espalier::int_lf<key, value>>,
    entry<espalier::int_lf<key, value, map_traits::with_placement<shared_heap>>, "shared_heap">,
    entry<espalier::int_lf<key, value, map_traits::with_layout<published_layout>>, "published">,
    entry<espalier::int_lf<key, value, map_traits::with_layout<wide_descriptors_layout>>, "wide_descriptors">,
    entry<int_lf_as_studied<shared_heap>, "studied", placing::chosen>,
    entry<int_lf_as_studied<extra_allocations<shared_heap>>, "studied_disturbed">>;

}  // namespace espalier::catalog
