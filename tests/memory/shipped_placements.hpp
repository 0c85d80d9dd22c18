#pragma once

#include <gtest/gtest.h>

#include "espalier/memory/baselines/disturbed.hpp"
#include "espalier/memory/clustered.hpp"
#include "espalier/memory/index_aware.hpp"
#include "espalier/memory/numa_local.hpp"
#include "espalier/memory/pmr.hpp"
#include "espalier/memory/recorded.hpp"
#include "espalier/memory/segregated.hpp"
#include "espalier/memory/shared_heap.hpp"

namespace espalier::test {

/// What every suite of placements runs on.
using shipped_placements =
    testing::Types<segregated, shared_heap, pmr_placement, clustered, shifted<shared_heap>,
                   extra_allocations<shared_heap>, extra_allocations<segregated>, random_padding<shared_heap>,
                   random_padding<segregated>, recorded<shared_heap>, recorded<clustered>, index_aware,
                   numa_local, split_clusters<32, 24>, split_clusters<16, 40>>;

}  // namespace espalier::test
