#pragma once

#include <gtest/gtest.h>

#include "espalier/memory/baselines/chunked_heap.hpp"
#include "espalier/memory/baselines/disturbed.hpp"
#include "espalier/memory/clustered.hpp"
#include "espalier/memory/index_aware.hpp"
#include "espalier/memory/numa_local.hpp"
#include "espalier/memory/recorded.hpp"
#include "espalier/memory/segregated.hpp"
#include "espalier/memory/shared_heap.hpp"

namespace espalier::test {

/// Placements that any_placement has no name for.
using unnamed_placements = testing::Types<extra_allocations<segregated>, random_padding<segregated>,
                                          split_clusters<32, 24>, split_clusters<16, 40>>;

/// All placements, some of which only the compiler tells from the named ones.
using shipped_placements =
    testing::Types<segregated, shared_heap, clustered, shifted<shared_heap>, extra_allocations<segregated>,
                   random_padding<segregated>, recorded<shared_heap>, index_aware, numa_local,
                   split_clusters<32, 24>, split_clusters<16, 40>, chunked_heap, chunked_heaps>;

}  // namespace espalier::test
