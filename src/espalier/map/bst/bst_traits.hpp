#pragma once

#include "espalier/map/map_traits.hpp"
#include "espalier/map/node_layout.hpp"
#include "espalier/memory/segregated.hpp"
#include "espalier/reclaim/epoch.hpp"
#include "espalier/sync/ttas_lock.hpp"

namespace espalier {

/// The policies from which lock-free binary search trees make their own.
using plain_traits = basic_map_traits<segregated, compact_layout, epoch_domain, unused_policy, unused_policy>;
/// The same for trees with locks in their nodes.
using locking_traits = plain_traits::with_lock<ttas_lock>;

}  // namespace espalier
